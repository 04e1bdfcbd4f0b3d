import { escaped, svgPage } from "../../../dev/svg-page.ts";

/** One line of a chart: a value for each part of so many seconds. */
export interface Series {
  readonly name: string;
  readonly values: readonly number[];
}

/** A chart of rates over hours. */
interface RateChart {
  readonly title: string;
  readonly seconds: number;
  readonly series: readonly Series[];
  readonly note: string;
}

const frame = { width: 860, height: 400, left: 60, right: 150, top: 44, bottom: 48 };
const inner = {
  width: frame.width - frame.left - frame.right,
  height: frame.height - frame.top - frame.bottom,
};

const light = ["#1f5a96", "#b35900", "#1a7f37", "#8250df", "#57606a", "#cf222e"];
const dark = ["#8fc1f0", "#f0883e", "#56d364", "#bc8cff", "#9da7b3", "#ff7b72"];
const strokes = (colours: readonly string[]): string[] =>
  colours.flatMap((colour, i) => [`.s${i} { stroke: ${colour} }`, `.t${i} { fill: ${colour} }`]);

const rules = [
  "path { fill: none; stroke-width: 1.8 }",
  ".grid { stroke: #d0d7de; stroke-width: 1 }",
  ...strokes(light),
  // It lies on the line of the sidecars, whose rules it had.
  ".s5 { stroke-dasharray: 5 5 }",
];

/** Draws rates over hours, on a logarithmic scale from 0.1 in a second. */
export function rateChart({ title, seconds, series, note }: RateChart): string {
  const hours = (Math.max(...series.map(({ values }) => values.length)) * seconds) / 3600;
  const peak = Math.max(1, ...series.flatMap(({ values }) => values));
  const decades = Math.ceil(Math.log10(peak) + 1);
  const x = (hour: number): string => (frame.left + (inner.width * hour) / hours).toFixed(1);
  const y = (rate: number): string => {
    const decade = Math.log10(Math.max(0.1, rate)) + 1;
    return (frame.top + inner.height * (1 - decade / decades)).toFixed(1);
  };
  const rates = Array.from({ length: decades + 1 }, (_, i) => 10 ** (i - 1));
  const right = frame.width - frame.right;
  const grid = rates.map(
    (rate) => `  <path d="M${frame.left} ${y(rate)}H${right}" class="grid"/>
  <text x="${frame.left - 8}" y="${Number(y(rate)) + 4}" class="end note">${rate.toLocaleString("en-US")}</text>`,
  );
  const ticks = Array.from({ length: Math.floor(hours / 4) + 1 }, (_, i) => 4 * i).map(
    (hour) =>
      `  <text x="${x(hour)}" y="${frame.height - frame.bottom + 18}" class="note">${hour} h</text>`,
  );
  const lines = series.map(({ name, values }, i) => {
    const points = values.map((rate, n) => `${x(((n + 0.5) * seconds) / 3600)} ${y(rate)}`);
    const label = frame.top + 14 + 20 * i;
    return `  <path d="M${points.join("L")}" class="s${i}"/>
  <text x="${right + 14}" y="${label}" class="t${i}">${escaped(name)}</text>`;
  });
  const peaks = series.map(({ name, values }) => {
    return `${name} at most ${Math.max(...values).toFixed(1)} in a second`;
  });
  return svgPage({
    width: frame.width,
    height: frame.height,
    title,
    description: `${peaks.join("; ")}.`,
    light: rules,
    dark: [".grid { stroke: #30363d }", ...strokes(dark)],
    body: [
      `  <text x="${frame.left}" y="24" class="name">${escaped(title)}</text>`,
      ...grid,
      ...ticks,
      ...lines,
      `  <text x="${frame.left}" y="${frame.height - 10}" class="note">${escaped(note)}</text>`,
    ].join("\n"),
  });
}
