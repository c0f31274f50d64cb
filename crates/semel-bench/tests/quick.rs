//! The quick mode runs everything and says everything that is documented. How fast is not asked.

use std::collections::BTreeMap;
use std::process::Command;

use serde::Deserialize;

/// Rates of the store, each with its ratio; the quick mode has 3,000 jobs waiting.
const RATES: [&str; 21] = [
    "enqueue_1",
    "enqueue_unique",
    "enqueue_c64",
    "enqueue_unique_c64",
    "enqueue_bulk_16",
    "enqueue_unique_bulk_16",
    "enqueue_bulk_128",
    "enqueue_unique_bulk_128",
    "enqueue_bulk",
    "enqueue_unique_bulk",
    "enqueue_dup",
    "process",
    "claim",
    "settle",
    "process_unique",
    "claim_unique",
    "settle_unique",
    "lifecycle_sequential",
    "lifecycle_pipelined",
    "lifecycle",
    "lifecycle_3k",
];

/// Everything else.
const OTHERS: [&str; 29] = [
    "ceiling_1",
    "ceiling_16",
    "ceiling_128",
    "ceiling_128_p99",
    "ceiling_1024",
    "enqueue_c64_p50",
    "enqueue_c64_p99",
    "enqueue_unique_c64_p50",
    "enqueue_unique_c64_p99",
    "unique_over_plain_1",
    "unique_over_plain_c64",
    "unique_over_plain",
    "lifecycle_sequential_3k",
    "lifecycle_pipelined_3k",
    "open_3k",
    "mem_job",
    "mem_dedupe",
    "syncs_ceiling_1",
    "syncs_enqueue_1",
    "syncs_enqueue_c64",
    "syncs_enqueue_bulk",
    "syncs_enqueue_unique_bulk",
    "syncs_lifecycle",
    "written_ceiling_1",
    "written_enqueue_1",
    "written_enqueue_c64",
    "written_enqueue_bulk",
    "written_enqueue_unique_bulk",
    "written_lifecycle",
];

#[derive(Deserialize)]
struct Line {
    peer: String,
    metric: String,
    value: f64,
    unit: String,
}

fn bench(args: &[&str]) -> String {
    let dir = tempfile::tempdir().expect("a directory can be made");
    let mut command = Command::new(env!("CARGO_BIN_EXE_semel-bench"));
    let output = command
        .arg("--dir")
        .arg(dir.path())
        .args(args)
        .output()
        .expect("the bench can be started");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(
        std::fs::read_dir(dir.path())
            .expect("the directory is there")
            .count(),
        0,
        "it leaves nothing behind"
    );
    String::from_utf8(output.stdout).expect("it writes UTF-8")
}

#[test]
fn every_documented_metric_is_reported_once() {
    let mut found: BTreeMap<String, Vec<Line>> = BTreeMap::new();
    for line in bench(&["--quick", "--json"]).lines() {
        let line: Line = serde_json::from_str(line).unwrap();
        found.entry(line.metric.clone()).or_default().push(line);
    }
    let ratios = RATES.map(|metric| format!("ratio_{metric}"));
    let documented = RATES
        .into_iter()
        .chain(OTHERS)
        .chain(ratios.iter().map(String::as_str));
    for metric in documented {
        let lines = found.get(metric).map_or(&[][..], Vec::as_slice);
        let [line] = lines else {
            panic!("{metric} is reported {} times", lines.len())
        };
        assert!(
            line.value.is_finite() && line.value > 0.0,
            "{metric} is {}",
            line.value
        );
        assert_eq!(line.peer, "semel");
        assert!(!line.unit.is_empty(), "{metric} has a unit");
    }
}

#[test]
fn a_commit_of_a_lone_caller_is_one_fsync_and_callers_share_theirs() {
    let text = bench(&["--quick", "--json", "--only", "syncs"]);
    let syncs = |metric: &str| {
        let lines = text
            .lines()
            .map(|line| serde_json::from_str::<Line>(line).unwrap());
        lines
            .into_iter()
            .find(|line| line.metric == metric)
            .unwrap()
            .value
    };
    assert_eq!(syncs("syncs_enqueue_1"), 1.0);
    assert!(syncs("syncs_enqueue_c64") < 0.5, "{text}");
}

#[test]
fn the_table_tells_ratio_and_target() {
    let table = bench(&["--quick", "--only", "singles"]);
    let line = table.lines().find(|line| line.starts_with("enqueue_1 ")).unwrap();
    assert!(line.contains("ceiling_1"), "{line}");
    assert!(line.contains("ratio >= 0.75"), "{line}");
    assert!(line.ends_with("yes") || line.ends_with("NO"), "{line}");
}
