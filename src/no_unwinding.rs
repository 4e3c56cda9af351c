//! In libunwind's place, in a program without tables to unwind by and without symbols: a device's.
//!
//! Such a program aborts on a panic, and a backtrace of it has nothing to say. The standard library asks for both all the
//! same; that each is a definition of the program's own keeps libunwind, the reader of debugging symbols and what unpacks
//! those out of it: a fourteenth of the program. Names and types are those of the Itanium C++ ABI for exceptions, level 1.

#![allow(non_snake_case, reason = "the names are the interface's")]

use std::ffi::{c_int, c_void};

/// The interface's `_Unwind_Context`: no code ever has one.
type Context = *mut c_void;

const END_OF_STACK: c_int = 5;

/// Walks the stack: to its end at once.
// SAFETY: libunwind is not linked beside it, and every caller takes the end of the stack for an answer.
#[unsafe(no_mangle)]
extern "C" fn _Unwind_Backtrace(_visit: *const c_void, _argument: *mut c_void) -> c_int {
    END_OF_STACK
}

/// Where unwinding goes on after a clean-up: it never began.
// SAFETY: as above; it does not return, as its callers expect.
#[unsafe(no_mangle)]
extern "C" fn _Unwind_Resume(_exception: *mut c_void) -> ! {
    std::process::abort()
}

/// What only a caller with a [`Context`] could ask.
macro_rules! never_asked {
    ($($name:ident($($argument:ty),*) $(-> $result:ty)?;)*) => {
        $(
            // SAFETY: as above; without a context it cannot be called.
            #[unsafe(no_mangle)]
            extern "C" fn $name($(_: $argument),*) $(-> $result)? {
                std::process::abort()
            }
        )*
    };
}

never_asked! {
    _Unwind_GetDataRelBase(Context) -> usize;
    _Unwind_GetTextRelBase(Context) -> usize;
    _Unwind_GetIP(Context) -> usize;
    _Unwind_GetIPInfo(Context, *mut c_int) -> usize;
    _Unwind_GetLanguageSpecificData(Context) -> usize;
    _Unwind_GetRegionStart(Context) -> usize;
    _Unwind_SetGR(Context, c_int, usize);
    _Unwind_SetIP(Context, usize);
}
