//! `tierfs config …`

use super::Exit;
use super::args::ConfigCommand;
use crate::config::{Config, Example, keys};
use std::io::{self, Write};

/// Prints what is asked for; problems and warnings go to `errors`.
///
/// # Errors
/// When the output can't be written.
pub fn run(command: ConfigCommand, output: &mut dyn Write, errors: &mut dyn Write) -> io::Result<Exit> {
    match command {
        ConfigCommand::Example { example } => output.write_all(Example::from(example).text().as_bytes())?,
        ConfigCommand::Keys => output.write_all(keys::markdown().as_bytes())?,
        ConfigCommand::Show { config } => match Config::load(&config) {
            Ok((config, warnings)) => {
                warnings.iter().try_for_each(|warning| writeln!(errors, "{warning}"))?;
                write!(output, "{}", config.show())?;
            }
            Err(problems) => {
                writeln!(errors, "{problems}")?;
                return Ok(Exit::Usage);
            }
        },
    }
    output.flush()?;
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::args::ExampleName;

    fn ran(command: ConfigCommand) -> (Exit, String, String) {
        let (mut output, mut errors) = (Vec::new(), Vec::new());
        let exit = run(command, &mut output, &mut errors).unwrap();
        (exit, String::from_utf8(output).unwrap(), String::from_utf8(errors).unwrap())
    }

    #[test]
    fn examples_and_keys_are_printed() {
        let (exit, output, errors) = ran(ConfigCommand::Example { example: ExampleName::Serve });
        assert_eq!((exit, output.as_str(), errors.as_str()), (Exit::Done, Example::Serve.text(), ""));
        assert!(ran(ConfigCommand::Keys).1.starts_with("| key | value |"));
    }

    #[test]
    fn show_prints_values_or_problems() {
        let file = tempfile::Builder::new().suffix(".toml").tempfile().unwrap();
        let show = || ran(ConfigCommand::Show { config: file.path().to_owned() });
        std::fs::write(
            file.path(),
            "[tier.a]\nkind = \"local\"\npath = \"/a\"\n[[rule]]\npath = \"**\"\nhome = \"a\"\n",
        )
        .unwrap();
        let (exit, output, errors) = show();
        assert_eq!((exit, errors.as_str()), (Exit::Done, ""));
        assert!(output.contains("memory = \"512MiB\""), "{output}");
        std::fs::write(file.path(), "[mount]\nmemory = 1\n[tier.a]\nkind = \"local\"\npath = \"/a\"\n[[rule]]\npath = \"**\"\nhome = \"a\"\n").unwrap();
        let (exit, output, errors) = show();
        assert_eq!((exit, output.as_str()), (Exit::Usage, ""));
        assert!(errors.starts_with(&format!("{}:2: `memory`", file.path().display())), "{errors}");
    }
}
