import type { OpenedStore } from "../../../ca/opened-store.ts";
import { type NextStep, nextStepOf } from "../../../ca/rotation/next-step.ts";
import { formatInstant } from "../../terminal/text.ts";

const dayMilliseconds = 86_400_000;

/** Whole days from now until an instant; negative once it is over. */
const daysUntil = (at: Date, now: Date): number =>
  Math.floor((at.getTime() - now.getTime()) / dayMilliseconds);

const acts: Readonly<Record<NextStep["act"], string>> = {
  request: "request the next intermediate (`rampart authority request`)",
  install: "install the certificate of the open request (`rampart authority install`)",
  ask: "the cron asks the CA upstream for the next intermediate",
};

/** Whether a step is due now that a person has to take, or to look into. */
export function isStepDue(store: OpenedStore, now: Date): boolean {
  const step = nextStepOf(store);
  return step !== undefined && (!step.due || step.due <= now);
}

/** The next step of an authority under another CA's root, as a paragraph in a list; empty where there is none. */
export function formatNextStep(store: OpenedStore, now: Date): string[] {
  const step = nextStepOf(store);
  if (!step) return [];
  const { act, due, deadline } = step;
  if (!due || !deadline) return [`Next step, now: ${acts[act]}.`];
  const from = due > now ? `from ${formatInstant(due)} (${inDays(due, now)})` : "due now";
  return [
    `Next step, ${from}, by ${formatInstant(deadline)} (${inDays(deadline, now)}): ${acts[act]}.`,
  ];
}

function inDays(at: Date, now: Date): string {
  const days = daysUntil(at, now);
  return days < 0 ? `${-days} days late` : `in ${days} days`;
}

/** {@link formatNextStep} as members of a JSON object. */
export function nextStepJson(store: OpenedStore, now: Date): { readonly nextStep?: object } {
  const step = nextStepOf(store);
  if (!step) return {};
  const { due, deadline } = step;
  return {
    nextStep: {
      ...step,
      isDue: isStepDue(store, now),
      ...(due && { daysUntilDue: daysUntil(due, now) }),
      ...(deadline && { daysUntilDeadline: daysUntil(deadline, now) }),
    },
  };
}
