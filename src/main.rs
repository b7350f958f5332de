//! `tierfs`.

/// Thousands of buffers are taken by one thread and given back by another: glibc's arenas grow and shrink with each of them.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    tierfs::cli::main()
}
