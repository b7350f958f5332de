//! Findings about a config: every problem at once, one line each, in the order of the file.

use std::fmt;
use std::path::{Path, PathBuf};

/// The line of what is about no line in particular.
pub(super) const WHOLE_FILE: usize = 0;

/// Something wrong in a config.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Which file.
    pub file: PathBuf,
    /// Which line, from 1; 0: the file as a whole.
    pub line: usize,
    /// What is wrong and what to write instead.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            WHOLE_FILE => write!(f, "{}: {}", self.file.display(), self.message),
            line => write!(f, "{}:{line}: {}", self.file.display(), self.message),
        }
    }
}

impl std::error::Error for Problem {}

/// Everything that is wrong in a config; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems(Vec<Problem>);

impl Problems {
    /// The problems, in the order of the file.
    pub fn iter(&self) -> impl Iterator<Item = &Problem> {
        self.0.iter()
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }
}

impl From<Problem> for Problems {
    fn from(problem: Problem) -> Self {
        Self(vec![problem])
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, problem) in self.0.iter().enumerate() {
            if at > 0 {
                writeln!(f)?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

/// Something that works, but hardly as meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning(pub Problem);

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Problem { file, line, message } = &self.0;
        write!(f, "{}:{line}: warning: {message}", file.display())
    }
}

/// What was found so far.
#[derive(Debug)]
pub(super) struct Findings {
    file: PathBuf,
    problems: Vec<Problem>,
    warnings: Vec<Problem>,
    /// The file's structure could not be read to the end: what seems missing may just be unread.
    incomplete: bool,
}

impl Findings {
    pub(super) fn new(file: &Path) -> Self {
        Self { file: file.to_owned(), problems: Vec::new(), warnings: Vec::new(), incomplete: false }
    }

    /// Something is wrong at `line`.
    pub(super) fn problem(&mut self, line: usize, message: impl Into<String>) {
        let problem = self.at(line, message.into());
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }

    /// Something that should be there is not; not said when it may have been in an unreadable part.
    pub(super) fn missing(&mut self, line: usize, message: impl Into<String>) {
        if !self.incomplete {
            self.problem(line, message);
        }
    }

    pub(super) fn warning(&mut self, line: usize, message: impl Into<String>) {
        let warning = self.at(line, message.into());
        self.warnings.push(warning);
    }

    pub(super) fn set_incomplete(&mut self) {
        self.incomplete = true;
    }

    fn at(&self, line: usize, message: String) -> Problem {
        Problem { file: self.file.clone(), line, message }
    }

    /// The warnings, if nothing is wrong.
    pub(super) fn finish(mut self) -> Result<Vec<Warning>, Problems> {
        self.problems.sort_by_key(|problem| problem.line);
        self.warnings.sort_by_key(|problem| problem.line);
        if self.problems.is_empty() {
            Ok(self.warnings.into_iter().map(Warning).collect())
        } else {
            Err(Problems(self.problems))
        }
    }
}
