import { viewAt } from "../../../ca/authority-view.ts";
import type { OpenedStore } from "../../../ca/opened-store.ts";
import {
  forecastRotation,
  forecastTaints,
  type TaintForecast,
} from "../../../ca/rotation/forecast.ts";
import type { PhaseLengths } from "../../../pki/authority/schedule.ts";
import type { Screen } from "../../terminal/screen.ts";
import { formatTable } from "../../terminal/table.ts";
import { formatInstant } from "../../terminal/text.ts";
import { type DeliveryReport, formatDeliveries } from "../root/delivery-report.ts";
import { formatReach, type RootReach } from "../root/root-reach.ts";
import { formatAuthorities, reportAuthorities, shortId } from "./authority-report.ts";
import { formatNextStep, nextStepJson } from "./next-step-report.ts";

/** The parts of a plan beside the store. */
export interface Planned {
  readonly lengths: PhaseLengths;
  readonly deliveries: readonly DeliveryReport[];
  readonly reach: RootReach | undefined;
}

/** The plan as text: the authorities, coming events, effects of a taint, and the clusters that have the next root. */
export function formatPlan(
  screen: Screen,
  store: OpenedStore,
  { lengths, deliveries, reach }: Planned,
  now: Date,
): string {
  const { reasons } = viewAt(store, now);
  const events = forecastRotation(store, lengths, now).map(({ at, id, event }) => [
    formatInstant(at),
    shortId(id),
    event,
  ]);
  const taints = forecastTaints(store, lengths, now).map((taint) => [
    shortId(taint.id),
    successorText(taint),
    formatInstant(taint.trustedUntil.immediately),
    formatInstant(taint.trustedUntil["with-last-leaf"]),
  ]);
  const taintHeadings = ["IF TAINTED NOW", "SIGNS INSTEAD", "TRUSTED UNTIL", "OR, WITH LAST LEAF"];
  return [
    formatAuthorities(screen, reportAuthorities(store, now)),
    ...(reasons.length > 0 ? [["Needs attention:", ...reasons].join("\n  ")] : []),
    ...formatNextStep(store, now),
    formatTable(screen, ["WHEN", "WHO", "WHAT HAPPENS NEXT"], events),
    formatTable(screen, taintHeadings, taints),
    ...(deliveries.length > 0 ? [formatDeliveries(screen, deliveries)] : []),
    ...(reach ? [formatReach(reach)] : []),
  ].join("\n\n");
}

function successorText({ successor, successorSignsFrom }: TaintForecast): string {
  if (!successor || !successorSignsFrom) return "nothing";
  return `${shortId(successor)} from ${formatInstant(successorSignsFrom)}`;
}

/** The plan as JSON. */
export function planJson(
  store: OpenedStore,
  { lengths, deliveries, reach }: Planned,
  now: Date,
): string {
  const report = {
    now,
    authorities: reportAuthorities(store, now),
    needsAttention: viewAt(store, now).reasons,
    ...nextStepJson(store, now),
    events: forecastRotation(store, lengths, now),
    onTaint: forecastTaints(store, lengths, now),
    deliveries,
    rootReach: reach,
  };
  return JSON.stringify(report, undefined, 2);
}
