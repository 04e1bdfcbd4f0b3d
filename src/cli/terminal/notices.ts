import { styled } from "./style.ts";

/** The reader of what a verb prints. */
export interface Audience {
  /** Whether a script reads the answer: then only a terminal gets notices beside it. */
  readonly json?: boolean | undefined;
}

/** Says something beside the answer of a verb, on the standard error stream. */
export function notice(text: string, { json = false }: Audience = {}): void {
  if (!json || process.stderr.isTTY) console.error(text);
}

/** Says what a verb works on. */
export const noticePlace = (place: string, audience: Audience): void =>
  notice(styled("quiet", `On the ${place}:`, process.stderr), audience);

/** A command to type next, and its purpose. */
export type NextStep = readonly [command: string, reason: string];

/** Says what an operator does after a verb. */
export function noticeNext(steps: readonly NextStep[]): void {
  const lines = steps.map(
    ([command, reason]) => `  ${styled("heading", command, process.stderr)}\n      ${reason}`,
  );
  notice(["", "Next:", ...lines].join("\n"));
}
