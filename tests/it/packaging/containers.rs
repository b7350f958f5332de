//! Containers: the image's recipe, the manifests, and real containers of the programs under test.

mod image;
mod manifests;
mod real;
