//! `/metrics`: what happens here, in the text format of [OpenMetrics 1.0], which Prometheus reads.
//!
//! [OpenMetrics 1.0]: https://prometheus.io/docs/specs/om/open_metrics_spec/

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use axum::body::Body;
use axum::extract::State;
use axum::http::{Response, StatusCode};
use castellan_runtime::snapshot::Figures;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

use crate::{Shared, text};

const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Labels of a metric, by name.
type Labels = [(&'static str, &'static str); 1];

pub(crate) async fn answer(State(shared): State<Arc<Shared>>) -> Response<Body> {
    let figures = match shared.looks.figures().await {
        Ok(figures) => figures,
        Err(error) => {
            tracing::error!(%error, "the metrics can't be read");
            let words = "the database can't be read\n".to_owned();
            return text(StatusCode::SERVICE_UNAVAILABLE, "text/plain", words);
        }
    };
    let mut body = String::new();
    let up = shared.clock.monotonic().saturating_sub(shared.began);
    let up = up.as_secs_f64();
    let parked = shared.mcp.parked() as u64;
    match encode(&mut body, &registry(&figures, shared.version, up, parked)) {
        Ok(()) => text(StatusCode::OK, MEDIA_TYPE, body),
        Err(error) => {
            tracing::error!(%error, "the metrics can't be written");
            let words = "the metrics can't be written\n".to_owned();
            text(StatusCode::INTERNAL_SERVER_ERROR, "text/plain", words)
        }
    }
}

/// The figures of this moment as metrics. What this process counted begins with it; what is named
/// `recorded` is of the whole database.
fn registry(figures: &Figures, version: &'static str, up: f64, parked: u64) -> Registry {
    let mut registry = Registry::with_prefix("castellan");
    let about = Info::new([("version", version)]);
    registry.register("build", "The program", about);
    registry.register_with_unit(
        "uptime",
        "How long it runs",
        Unit::Seconds,
        ConstGauge::new(up),
    );
    let counts = &figures.session;
    let total = &figures.total;
    for (name, help, value) in [
        ("calls", "Calls that are over", counts.calls),
        ("denied_calls", "Calls that were denied", counts.denied),
        ("failed_calls", "Calls that failed otherwise", counts.failed),
        (
            "approval_questions",
            "How often a person was asked",
            counts.approvals,
        ),
        (
            "recorded_calls",
            "Calls in the audit: what changed something, failed or was denied",
            total.recorded_calls,
        ),
        ("recorded_reads", "Calls that only read", total.reads),
        (
            "recorded_denied_calls",
            "Calls in the audit that were denied",
            total.denied,
        ),
        (
            "recorded_failed_calls",
            "Calls in the audit that failed otherwise",
            total.failed,
        ),
        (
            "input_tokens",
            "Tokens that models of sessions read",
            total.input_tokens,
        ),
        (
            "output_tokens",
            "Tokens that they wrote",
            total.output_tokens,
        ),
    ] {
        registry.register(name, help, ConstCounter::new(value));
    }
    let took = Family::<Labels, Gauge<f64, AtomicU64>>::default();
    for (quantile, milliseconds) in [
        ("0.5", counts.latency_ms.p50),
        ("0.9", counts.latency_ms.p90),
        ("0.99", counts.latency_ms.p99),
    ] {
        let gauge = took.get_or_create(&[("quantile", quantile)]);
        gauge.set(milliseconds / 1_000.0);
    }
    let help = "How long calls took, to within a fourth";
    registry.register_with_unit("call_duration", help, Unit::Seconds, took);
    for gauge in &figures.gauges {
        let count = i64::try_from(gauge.count).unwrap_or(i64::MAX);
        registry.register(gauge.field, gauge.words.1, ConstGauge::new(count));
    }
    let help = "Calls of MCP clients that wait for an answer";
    let parked = i64::try_from(parked).unwrap_or(i64::MAX);
    registry.register("parked_calls", help, ConstGauge::new(parked));
    registry
}
