//! Where did the time go: a trace of the scheduler, split along the critical path of one thread.
//!
//! [`read`] turns a file into a [`Trace`]; [`threads`] finds what each thread did at each moment; [`explain`] follows one thread
//! through those that it waited for; [`remedy`] estimates what the mechanisms would have removed. All after [`read`] is a pure
//! function, linear in the events.

pub mod collect;
mod colours;
pub mod compare;
pub mod explain;
pub mod html;
pub mod json;
pub mod launches;
pub mod model;
pub mod path;
pub mod perfetto;
mod perfetto_schema;
pub mod read;
pub mod remedy;
#[cfg(test)]
mod sample;
pub mod svg;
pub mod target;
pub mod threads;
pub mod waterfall;
pub mod words;

pub use model::Trace;
