import { AuthorityView } from "../../../ca/authority-view.ts";
import type { OpenedStore } from "../../../ca/opened-store.ts";
import type { NextStep } from "../../../ca/rotation/next-step.ts";
import { TaintForecast } from "../../../ca/rotation/taint-forecast.ts";
import { nextActs, SignerStatus } from "../../../status/authorities.ts";
import { formatTable } from "../../terminal/table.ts";
import type { Screen } from "../../terminal/terminal.ts";
import { formatInstant, shortId } from "../../terminal/text.ts";
import {
  type DeliveryReport,
  formatDeliveries,
  formatReach,
  type RootReach,
} from "../cluster/delivery-report.ts";
import { formatOldRoots, type OldRoot } from "../cluster/old-roots.ts";
import { formatAuthorities } from "./store-summary.ts";

type Plan = ReturnType<typeof planOf>;

/** Collects the plan of the rotation: what comes when, what a taint would do, and which clusters have which roots. */
export function planOf(
  store: OpenedStore,
  clusters: {
    readonly deliveries: readonly DeliveryReport[];
    readonly rootReach: RootReach | undefined;
    readonly oldRoots: readonly OldRoot[];
  },
  now: Date,
) {
  return {
    ...SignerStatus.of("", store, now),
    ...clusters,
    now,
    needsAttention: AuthorityView.at(store, now).reasons,
    onTaint: TaintForecast.of(store, store.phaseLengths, now),
  };
}

/** Formats the plan of the rotation for a terminal: what comes when, and what a taint would do. */
export function formatPlan(screen: Screen, plan: Plan): string {
  const { authorities, needsAttention, nextStep, deliveries, rootReach, oldRoots, now } = plan;
  const events = plan.events.map(({ at, id, event }) => [formatInstant(at), shortId(id), event]);
  const taints = plan.onTaint.map((taint) => [
    shortId(taint.id),
    successorText(taint),
    formatInstant(taint.trustedUntil.immediately),
    formatInstant(taint.trustedUntil["with-last-leaf"]),
  ]);
  const taintHeadings = ["IF TAINTED NOW", "SIGNS INSTEAD", "TRUSTED UNTIL", "OR, WITH LAST LEAF"];
  return [
    formatAuthorities(screen, authorities),
    ...(needsAttention.length > 0 ? [["Needs attention:", ...needsAttention].join("\n  ")] : []),
    ...(nextStep ? [formatNextStep(nextStep, now)] : []),
    formatTable(screen, ["WHEN", "WHO", "WHAT HAPPENS NEXT"], events),
    formatTable(screen, taintHeadings, taints),
    ...(deliveries.length > 0 ? [formatDeliveries(screen, deliveries)] : []),
    ...(rootReach ? [formatReach(rootReach)] : []),
    ...(oldRoots.length > 0 ? [formatOldRoots(screen, oldRoots)] : []),
  ].join("\n\n");
}

function successorText({ successor, successorSignsFrom }: TaintForecast): string {
  if (!successor || !successorSignsFrom) return "nothing";
  return `${shortId(successor)} from ${formatInstant(successorSignsFrom)}`;
}

function formatNextStep({ act, due, deadline }: NextStep, now: Date): string {
  const { what, command } = nextActs[act];
  const sentence = command ? `${what} (\`${command}\`)` : what;
  if (!due || !deadline) return `Next step, now: ${sentence}.`;
  const from = due > now ? `from ${formatInstant(due)} (${inDays(due, now)})` : "due now";
  return `Next step, ${from}, by ${formatInstant(deadline)} (${inDays(deadline, now)}): ${sentence}.`;
}

function inDays(at: Date, now: Date): string {
  const days = daysUntil(at, now);
  return days < 0 ? `${-days} days late` : `in ${days} days`;
}

/** Whole days from now until an instant; negative once it is over. */
const daysUntil = (at: Date, now: Date): number =>
  Math.floor((at.getTime() - now.getTime()) / 86_400_000);

/** The plan of the rotation as `--json` prints it. */
export function planJson({ name: _, unopened: __, nextStep, ...plan }: Plan): object {
  return { ...plan, ...(nextStep && { nextStep: stepJson(nextStep, plan.now) }) };
}

function stepJson(step: NextStep, now: Date): object {
  const { due, deadline } = step;
  return {
    ...step,
    isDue: SignerStatus.isStepDue(step, now),
    ...(due && { daysUntilDue: daysUntil(due, now) }),
    ...(deadline && { daysUntilDeadline: daysUntil(deadline, now) }),
  };
}
