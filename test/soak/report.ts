import type { Scene } from "./scene.ts";
import type { Strangers } from "./strangers.ts";
import { quantities, type Sample, type Trend, trendsOf } from "./verdict.ts";
import type { Tally } from "./workloads.ts";

/** The findings of a soak so far. */
export interface Record {
  readonly samples: Readonly<globalThis.Record<"serve" | "gateway", Sample[]>>;
  readonly tally: Tally;
  readonly strangers: Strangers["tally"];
}

export const heading =
  "minute  serve: memory  heap  descriptors  handles | gateway: memory  heap  descriptors  handles | issued  retried  faults  roots  floods";

const totalOf = (counts: Readonly<globalThis.Record<string, number>>): number =>
  Object.values(counts).reduce((sum, count) => sum + count, 0);

/** One line of the table. */
export function row(
  minute: number,
  { samples, tally, strangers }: Record,
  { rootsSeen }: Scene,
): string {
  const held = (sample: Sample | undefined): string =>
    sample ? quantities.map((quantity) => sample[quantity].toFixed(0).padStart(8)).join("") : "";
  const counts = [
    tally.issued,
    totalOf(tally.retried),
    tally.faults.length,
    rootsSeen(),
    strangers.floods,
  ];
  const ends = counts.map((count) => String(count).padStart(8)).join("");
  return `${String(minute).padStart(6)}  ${held(samples.serve.at(-1))} | ${held(samples.gateway.at(-1))} |${ends}`;
}

/** Notes, each with a flood and what callers had to retry since the note before. */
export function minuteNotes(tally: Tally): (flood: string) => string {
  let noted: Tally["retried"] = {};
  let late = 0;
  return (flood) => {
    const { retried } = tally;
    const crowded = tally.late > late ? [`late ${tally.late - late} times`] : [];
    late = tally.late;
    const news = Object.entries(retried).map(
      ([retry, times]) => [retry, times - (noted[retry] ?? 0)] as const,
    );
    noted = { ...retried };
    const retries = news.filter(([, times]) => times > 0).map((each) => each.join(" "));
    return `        ${[flood, ...retries, ...crowded].join(", ")}`;
  };
}

/** The verdict in sentences, and one line of JSON for a machine. */
interface Verdict {
  readonly passed: boolean;
  readonly text: string;
}

export function verdictOn(record: Record, minutes: number, scene: Scene): Verdict {
  const { samples, tally, strangers } = record;
  const trends = { serve: trendsOf(samples.serve), gateway: trendsOf(samples.gateway) };
  const grown = Object.entries(trends).flatMap(([program, each]) =>
    each.filter(({ isFlat }) => !isFlat).map((trend) => `${program}: ${sentence(trend)}`),
  );
  const ended = (["serve", "gateway"] as const).flatMap((program) => {
    const how = scene[program].endedWith();
    return how === undefined ? [] : [`${program} ended with ${how}`];
  });
  const forged = strangers.issued > 0 ? [`${strangers.issued} forged tokens were accepted`] : [];
  const faults = [...ended, ...grown, ...forged, ...new Set(tally.faults)];
  const passed = faults.length === 0 && tally.issued > 0;
  const flat = Object.entries(trends).flatMap(([program, each]) =>
    each.map((trend) => `${program}: ${sentence(trend)}`),
  );
  const machine = {
    passed,
    minutes,
    issued: tally.issued,
    retried: tally.retried,
    late: tally.late,
    faults: tally.faults.length,
    strangers,
    roots: scene.rootsSeen(),
    peaks: { serve: samples.serve.at(-1)?.peak, gateway: samples.gateway.at(-1)?.peak },
    trends,
  };
  return {
    passed,
    text: [...flat, ...faults.map((fault) => `FAULT ${fault}`), JSON.stringify(machine)].join("\n"),
  };
}

const sentence = ({ quantity, first, last }: Trend): string =>
  `${quantity} from ${first.toFixed(1)} to ${last.toFixed(1)}`;
