"""memgauge in the tools that people have: callbacks for transformers, Lightning and accelerate, a plugin for pytest.
Each module needs the library that it is named after, and none of another. docs/integrations.md, docs/pytest.md"""
