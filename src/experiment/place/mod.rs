//! Where plans run: the lab's guests, or the device that brisk is on. Both run `brisk replicate`.

mod here;
#[cfg(feature = "lab")]
mod lab;

pub use here::Here;
#[cfg(feature = "lab")]
pub use lab::Lab;
