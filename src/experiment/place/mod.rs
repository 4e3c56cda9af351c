//! Where plans run: the lab's guests, or the device that brisk is on. Both run `brisk replicate`.

mod here;
mod lab;

pub use here::Here;
pub use lab::Lab;
