// Two functions of the C++ runtime that DuckDB's library calls and that GCC 10's libstdc++ lacks (they came with GCC
// 11 and 12). Released programs are linked with GCC 10, for old C libraries. Where the runtime has them, its own may be
// taken: these are weak.

// std::string::reserve(), to which shrink_to_fit() comes down. It may do nothing (bits/basic_string.tcc, 11.1).
__attribute__((weak)) void
    _ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE7reserveEv(void *string) {
	(void)string;
}

// Throws std::bad_array_new_length (libsupc++/eh_aux_runtime.cc).
extern void __cxa_throw_bad_array_new_length(void) __attribute__((noreturn));

// std::__throw_bad_array_new_length(): what a container says that was asked for more than can be addressed.
__attribute__((weak, noreturn)) void _ZSt28__throw_bad_array_new_lengthv(void) {
	__cxa_throw_bad_array_new_length();
}
