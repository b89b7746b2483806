// A function for each of NVML's, under its name: it jumps to what its slot holds, with all arguments where they are. So
// the program needs no library to start, however it is loaded (LD_BIND_NOW). Until bind.c has filled a slot, and for a
// function that the driver's library lacks, the answer is NVML_ERROR_FUNCTION_NOT_FOUND.

	.data
	.balign 8
	.globl memgauge_nvml_slots
	.hidden memgauge_nvml_slots
memgauge_nvml_slots:
#define F(name) slot_##name: .quad missing;
#include "functions.h"
#undef F

	.text
#if defined(__x86_64__)
#define TO(slot) endbr64; jmp *slot(%rip);
missing:
	movl $13, %eax
	ret
#elif defined(__aarch64__)
#define TO(slot) bti c; adrp x16, slot; ldr x16, [x16, :lo12:slot]; br x16;
missing:
	mov w0, #13
	ret
#endif

#define F(name) .globl name; .hidden name; .type name, %function; name: TO(slot_##name)
#include "functions.h"

	.section .note.GNU-stack, "", %progbits
