//! Replaces libunwind in the device's program, which has neither unwind tables nor symbols.
//!
//! That program aborts on a panic, and its backtraces would be empty. The standard library still references the unwinder.
//! Defining these symbols here keeps libunwind, the reader of debugging symbols and its decompressor out of the program,
//! which saves a fourteenth of its size. Names and types are those of the Itanium C++ ABI for exceptions, level 1.

#![allow(non_snake_case, reason = "the ABI defines the names")]

use std::ffi::{c_int, c_void};

/// The ABI's `_Unwind_Context`; no code ever gets one.
type Context = *mut c_void;

const END_OF_STACK: c_int = 5;

/// Walks the stack: reports its end at once.
// SAFETY: libunwind is not linked, so the symbol is unique; every caller handles the end of the stack.
#[unsafe(no_mangle)]
extern "C" fn _Unwind_Backtrace(_visit: *const c_void, _argument: *mut c_void) -> c_int {
    END_OF_STACK
}

/// Resumes unwinding after a clean-up; never called, because unwinding never starts.
// SAFETY: as above; it does not return, as its callers expect.
#[unsafe(no_mangle)]
extern "C" fn _Unwind_Resume(_exception: *mut c_void) -> ! {
    std::process::abort()
}

/// Functions that need a [`Context`], which no caller has.
macro_rules! never_called {
    ($($name:ident($($argument:ty),*) $(-> $result:ty)?;)*) => {
        $(
            // SAFETY: as above; no caller has a context.
            #[unsafe(no_mangle)]
            extern "C" fn $name($(_: $argument),*) $(-> $result)? {
                std::process::abort()
            }
        )*
    };
}

never_called! {
    _Unwind_GetDataRelBase(Context) -> usize;
    _Unwind_GetTextRelBase(Context) -> usize;
    _Unwind_GetIP(Context) -> usize;
    _Unwind_GetIPInfo(Context, *mut c_int) -> usize;
    _Unwind_GetLanguageSpecificData(Context) -> usize;
    _Unwind_GetRegionStart(Context) -> usize;
    _Unwind_SetGR(Context, c_int, usize);
    _Unwind_SetIP(Context, usize);
}
