//! Tests of the data path against fake tiers.

mod fills;
mod hot;
mod stage;
mod stream;
mod support;
