//! `tierfs`.

fn main() -> std::process::ExitCode {
    tierfs::cli::main()
}
