import { Succession } from "../../pki/authority/rotation.ts";
import { Taint } from "../../pki/authority/taint.ts";
import { addSeconds, earlier } from "../../pki/x509/validity.ts";
import type { OpenedStore } from "../opened-store.ts";

/** What has to be done next for an intermediate of another CA, and when. The first authority of a store may come at any time. */
export interface NextStep extends Partial<Succession> {
  /** A person does `request` and `install`. The cron does `ask`; a person does, if the cron fails. */
  readonly act: "request" | "install" | "ask";
}

/** The next step of a store, and how it is reported. */
export const NextStep = {
  /** The next step of a store; `undefined` where authorities are their own roots. */
  of(store: OpenedStore): NextStep | undefined {
    const { authorityRoot, authorities, requests, taints, phaseLengths } = store;
    if (authorityRoot === "self") return undefined;
    const byPerson = requests.length > 0 ? "install" : "request";
    const act = authorityRoot === "upstream" ? "ask" : byPerson;
    if (authorities.length === 0) return { act };
    return { act, ...Succession.of(Taint.apply(authorities, taints), phaseLengths) };
  },

  /** The instants at which {@link NextStep.reasonsAt} may change. */
  changes(store: OpenedStore): readonly Date[] {
    const step = NextStep.of(store);
    return step?.due && step.deadline
      ? [reportedFrom(store, step.due, step.deadline), step.deadline]
      : [];
  },

  /** One sentence if an intermediate is due and not installed; else none. */
  reasonsAt(store: OpenedStore, now: Date): string[] {
    const step = NextStep.of(store);
    if (!step?.due || !step.deadline || !step.signsUntil) return [];
    if (now < reportedFrom(store, step.due, step.deadline)) return [];
    const [until, deadline] = [step.signsUntil, step.deadline].map((each) => each.toISOString());
    const when =
      now > step.deadline
        ? `is late: the last authority signs until ${until}, and verifiers may not know a new root in time`
        : `is due: it must be installed by ${deadline}`;
    return [`the next intermediate ${when}; ${missing[step.act]}`];
  },
};

/** When a step is reported: once it is due; with a CA upstream an hour later, or a tenth of the spare time if shorter. */
function reportedFrom({ authorityRoot }: OpenedStore, due: Date, deadline: Date): Date {
  if (authorityRoot === "offline") return due;
  const tenth = (deadline.getTime() - due.getTime()) / 10_000;
  return earlier(addSeconds(due, 3600), addSeconds(due, tenth));
}

const missing: Readonly<Record<NextStep["act"], string>> = {
  request: "no request for one is open",
  install: "a request for one is open, and its certificate is not installed",
  ask: "the CA upstream has given none (the log says why)",
};
