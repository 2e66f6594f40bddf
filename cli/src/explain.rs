//! `systole explain`: every cut of a run and every plan built, with the reason and the line of the program.
//!
//! The model runs once, on a fresh device that keeps every report; what is printed are those reports and nothing
//! measured. Cuts that follow each other with the same reason, lines and plan are one entry with a count.

use serde::Serialize;
use systole::{Build, CutReason, Device, FlushReport, Mode, PlanSource, with_precision};

use crate::args::ExplainArgs;
use crate::output::{self, Failure, HEADING, count};
use crate::progress::Progress;

/// `systole explain`.
pub(crate) fn explain(args: &ExplainArgs) -> Result<(), Failure> {
    let (device, reports) = run(args)?;
    let text = if args.json {
        let explanation = Explanation {
            model: args.model.model.name,
            profile: &args.device.profile,
            mode: args.mode.name(),
            steps: args.steps,
            cuts: reports.iter().map(Cut::of).collect(),
        };
        let text = serde_json::to_string_pretty(&explanation).expect("strings and numbers are always JSON");
        text + "\n"
    } else {
        let title = format!(
            "{HEADING}{}{HEADING:#}, {} in mode {} on {}\n",
            args.model.model.name,
            count(args.steps, "step"),
            args.mode,
            device.capabilities().name
        );
        title + &render(&reports)
    };
    output::print(&text)
}

/// Runs the model and gives its reports, oldest first; those of setting it up are left out.
fn run(args: &ExplainArgs) -> Result<(Device, Vec<FlushReport>), Failure> {
    let mut progress = Progress::new();
    let input = args.model.input("explain")?;
    let model = args.model.prepare(&input, &mut progress)?;
    let device = Device::open(args.config())?;
    let mut workload = model.start(&device)?;
    device.synchronize()?;
    let setting_up = device.reports().len();
    progress.expect(args.steps);
    for _ in 0..args.steps {
        with_precision(args.device.precision, || workload.step())?;
        progress.advance(args.mode.name(), 1);
    }
    device.synchronize()?;
    let reports = device.reports().split_off(setting_up);
    Ok((device, reports))
}

/// The reports for people.
fn render(reports: &[FlushReport]) -> String {
    let built: Vec<&Build> = reports.iter().filter_map(build).collect();
    let mut text = format!(
        "{}, {} recorded; {} built with {} new\n\n",
        count(reports.len(), "cut"),
        count(reports.iter().map(|report| report.ops).sum(), "op"),
        count(built.len(), "plan"),
        count(reports.iter().map(|report| report.compiled.len()).sum(), "program"),
    );
    text += &format!("{HEADING}{:>9}  {:>5}  {:>8}  plan{HEADING:#}\n", "cut", "ops", "launches");
    let mut rest = reports;
    while let Some(first) = rest.first() {
        let same = rest.iter().take_while(|report| alike(first, report)).count();
        text += &entry(first, same);
        rest = &rest[same..];
    }
    text
}

/// Whether two cuts would be told in the same words.
fn alike(a: &FlushReport, b: &FlushReport) -> bool {
    let words = |report: &FlushReport| {
        let FlushReport { stream, ref reason, ref first, ref last, key, launches, op_by_op, waiting, .. } = *report;
        (stream, reason.clone(), first.clone(), last.clone(), key, (launches, op_by_op, waiting))
    };
    let told_once = |report: &FlushReport| build(report).is_some() || !report.compiled.is_empty();
    std::ptr::eq(a, b) || (!told_once(a) && !told_once(b) && a.plan == b.plan && words(a) == words(b))
}

fn entry(report: &FlushReport, times: usize) -> String {
    let number = match times {
        1 => report.sequence.to_string(),
        _ => format!("{}–{}", report.sequence, report.sequence + times as u64 - 1),
    };
    let plan = match &report.plan {
        PlanSource::Nothing => String::from("none: nothing was observed any more"),
        PlanSource::Cached => String::from("known"),
        PlanSource::Built(build) => {
            let (all, new) = (build.programs.len(), build.new_programs());
            format!("built: {}, {} of them new", count(all, "program"), new)
        }
    };
    let mut text = format!("{number:>9}  {:>5}  {:>8}  {plan}\n", report.ops, report.launches);
    let mut line = |words: String| text += &format!("{:>11}{words}\n", "");
    line(format!("cut: {}", report.reason));
    line(format!("ops: {} … {}", report.first, report.last));
    if let Some(build) = build(report) {
        line(match &build.difference {
            None => String::from("why: no plan was known"),
            Some(difference) => format!("why: unlike the nearest plan in {difference}"),
        });
        for program in &build.programs {
            let mark = if program.new { "+" } else { "=" };
            line(format!("  {mark} {}  {}", program.name, program.origin));
        }
    }
    if report.op_by_op > 0 {
        line(format!("op by op: {}", count(report.op_by_op, "fused program")));
    }
    if report.waiting > 0 {
        line(format!("waiting for the compiler: {}", count(report.waiting, "launch")));
    }
    for program in report.compiled.iter().filter(|program| program.extents.is_some()) {
        line(format!("  * {program}  {}", program.origin));
    }
    text
}

fn build(report: &FlushReport) -> Option<&Build> {
    match &report.plan {
        PlanSource::Built(build) => Some(build),
        PlanSource::Nothing | PlanSource::Cached => None,
    }
}

/// What `--json` prints; docs/cli.md fixes the keys.
#[derive(Serialize, Debug)]
struct Explanation<'a> {
    model: &'a str,
    profile: &'a str,
    mode: &'a str,
    steps: usize,
    cuts: Vec<Cut>,
}

#[derive(Serialize, Debug)]
struct Cut {
    stream: u64,
    sequence: u64,
    reason: &'static str,
    reason_text: String,
    ops: usize,
    outputs: usize,
    launches: usize,
    first_origin: String,
    last_origin: String,
    key: String,
    plan: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    programs: Vec<Program>,
    #[serde(skip_serializing_if = "Option::is_none")]
    difference: Option<String>,
    compiled: Vec<Compiled>,
    op_by_op: usize,
    waiting: usize,
}

#[derive(Serialize, Debug)]
struct Program {
    name: String,
    new: bool,
    origin: String,
}

#[derive(Serialize, Debug)]
struct Compiled {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    extents: Option<Vec<i64>>,
    origin: String,
}

impl Cut {
    fn of(report: &FlushReport) -> Self {
        let program = |program: &systole::ProgramReport| Program {
            name: program.name.clone(),
            new: program.new,
            origin: program.origin.to_string(),
        };
        let compiled = |program: &systole::CompileReport| Compiled {
            name: program.name.clone(),
            extents: program.extents.clone(),
            origin: program.origin.to_string(),
        };
        Cut {
            stream: report.stream,
            sequence: report.sequence,
            reason: match report.reason {
                CutReason::OneByOne => "one_by_one",
                CutReason::Read(_) => "read",
                CutReason::Synchronize(_) => "synchronize",
                CutReason::Flush(_) => "flush",
                CutReason::Ops(_) => "ops",
                CutReason::Bytes(_) => "bytes",
                CutReason::UsedBy(_) => "used_by",
                CutReason::Closed => "closed",
            },
            reason_text: report.reason.to_string(),
            ops: report.ops,
            outputs: report.outputs,
            launches: report.launches,
            first_origin: report.first.to_string(),
            last_origin: report.last.to_string(),
            key: format!("{:016x}", report.key),
            plan: match report.plan {
                PlanSource::Nothing => "nothing",
                PlanSource::Cached => "known",
                PlanSource::Built(_) => "built",
            },
            programs: build(report).map_or(Vec::new(), |build| build.programs.iter().map(program).collect()),
            difference: build(report).and_then(|build| build.difference.as_ref()).map(ToString::to_string),
            compiled: report.compiled.iter().map(compiled).collect(),
            op_by_op: report.op_by_op,
            waiting: report.waiting,
        }
    }
}

/// How a run is explained by default: its kinds of cut repeat from the third step on.
pub(crate) const STEPS: usize = 3;
/// The mode that has something to explain.
pub(crate) const MODE: Mode = Mode::Fused;
