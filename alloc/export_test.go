package alloc

// Checking says that the whole state is checked after each operation: a thousandth of the speed.
const Checking = checking
