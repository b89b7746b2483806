package anatomy

// Category is what a block is for.
type Category uint8

const (
	UnknownUse Category = iota
	Parameters          // and buffers of modules
	Gradients
	OptimizerState
	Activations
	Temporaries
	categories
)

var categoryNames = [categories]string{"unknown", "parameters", "gradients", "optimizer state", "activations",
	"temporaries"}

// String returns the category's name, as in the column category.
func (c Category) String() string { return categoryNames[c] }

// Category tells what an alloc's block is for: by what ran when it was made (see phaseOf), and by what ran when it was
// freed. docs/snapshot.md has the rules as a table.
func (h *History) Category(alloc int) Category {
	end := otherPhase
	freed := h.Partner[alloc] != None
	if freed {
		end = h.phases[h.Stack[h.Partner[alloc]]]
	}
	switch h.phases[h.Stack[alloc]] {
	case setupPhase:
		return Parameters
	case forwardPhase:
		return forwardUse(freed, end, h.lives(alloc))
	case backwardPhase:
		if freed && (end == backwardPhase || end == forwardPhase) {
			return Temporaries
		}
		return Gradients
	case optimizerPhase:
		if freed && end == optimizerPhase && h.lives(alloc) < 1 {
			return Temporaries
		}
		return OptimizerState
	}
	return UnknownUse
}

// forwardUse tells what forward has made: what backward frees are activations; what is there after more than an
// iteration is neither.
func forwardUse(freed bool, end phase, iterations int) Category {
	switch {
	case freed && end == forwardPhase:
		return Temporaries
	case freed && end == backwardPhase, iterations <= 1:
		return Activations
	}
	return UnknownUse
}

// use tells what a block is for that alive has found.
func (h *History) use(alloc, block int) Category {
	switch {
	case alloc != None:
		return h.Category(alloc)
	case block != None:
		return h.BlockCategory(block)
	}
	return UnknownUse
}

// BlockCategory tells what a block is for that the history has no alloc of: by its stack alone, if it has one.
func (h *History) BlockCategory(block int) Category {
	switch h.phases[h.Blocks[block].Stack] {
	case setupPhase:
		return Parameters
	case optimizerPhase:
		return OptimizerState
	case backwardPhase:
		return Gradients
	}
	return UnknownUse
}
