import type { Report } from "../metrics.ts";
import { OtlpValue } from "./values.ts";

type Metric = Report[number];
type Value = Metric["values"][number] & { readonly metricName?: string };

/** The times of the first count and of this one, in nanoseconds of Unix time. */
type Times = Readonly<Record<"startTimeUnixNano" | "timeUnixNano", string>>;

/**
 * The metrics of a report in OTLP, under the names of `/metrics`. A gauge without a value (`NaN`) has no point.
 *
 * @returns The metrics that have points, and how many points there are.
 */
export function metricsOf(report: Report, times: Times): { metrics: object[]; points: number } {
  let points = 0;
  const metrics = report.flatMap(({ name, help: description, type, values }) => {
    // The types of prom-client declare a number; at run time it is the name.
    const isHistogram = `${type}` === "histogram";
    const dataPoints = isHistogram ? histogramPoints(values, times) : numberPoints(values, times);
    if (dataPoints.length === 0) return [];
    points += dataPoints.length;
    const sum = { dataPoints, aggregationTemporality: 2 };
    if (isHistogram) return { name, description, histogram: sum };
    if (`${type}` === "counter") return { name, description, sum: { ...sum, isMonotonic: true } };
    return { name, description, gauge: { dataPoints } };
  });
  return { metrics, points };
}

const numberPoints = (values: readonly Value[], times: Times): readonly object[] =>
  values
    .filter(({ value }) => Number.isFinite(value))
    .map(({ value: asDouble, labels }) => ({
      ...times,
      attributes: OtlpValue.attributes(labels),
      asDouble,
    }));

/** Converts histograms: a bucket of Prometheus includes the counts of those before it, and the last has no bound. */
function histogramPoints(values: readonly Value[], times: Times): readonly object[] {
  const series = Map.groupBy(values, ({ labels: { le, ...labels } }) => JSON.stringify(labels));
  return [...series.values()].map((all) => {
    const countOf = (suffix: string): number =>
      all.find(({ metricName }) => metricName?.endsWith(suffix))?.value ?? 0;
    const buckets = all.filter(({ labels: { le } }) => le !== undefined);
    return {
      ...times,
      attributes: OtlpValue.attributes({ ...all[0]?.labels, le: undefined }),
      count: String(countOf("_count")),
      sum: countOf("_sum"),
      bucketCounts: buckets.map(({ value }, i) => String(value - (buckets[i - 1]?.value ?? 0))),
      explicitBounds: buckets.slice(0, -1).map(({ labels: { le } }) => Number(le)),
    };
  });
}
