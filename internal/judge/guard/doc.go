// Package guard owns the policies by which a training saves itself: it reads one from YAML, says what is wrong with it
// by file, line and key, and writes it as JSON for the agent, which has no YAML reader. It knows nothing of sessions
// and acts on nothing: the agent does (python/memgauge/_agent/guard).
package guard
