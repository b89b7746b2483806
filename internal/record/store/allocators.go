package store

// void memgauge_give_back(void);
import "C"

// giveBack returns memory that nobody uses to the kernel (allocators.c); it takes milliseconds.
func giveBack() { C.memgauge_give_back() }
