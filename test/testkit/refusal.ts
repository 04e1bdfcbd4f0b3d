import { randomUUID } from "node:crypto";
import { CaError, OperatorError } from "../../src/foundation/errors.ts";
import type { Refusal } from "../../src/foundation/refusal.ts";
import type { Outcome } from "../contract/rpc-calls.ts";
import type { AuditLine } from "./log/event-recorder.ts";
import { eventually } from "./time/eventually.ts";

/** The refusal that the work ends in. Anything else that it throws, or an answer, fails the test. */
export async function refusalOf(work: () => unknown): Promise<Refusal> {
  const error = await errorOf(work);
  if (error instanceof CaError) return error.refusal;
  throw error;
}

/** The OperatorError that the work ends in. Anything else that it throws, or an answer, fails the test. */
export async function operatorRefusalOf(work: () => unknown): Promise<OperatorError> {
  const error = await errorOf(work);
  if (error instanceof OperatorError) return error;
  throw error;
}

async function errorOf(work: () => unknown): Promise<unknown> {
  try {
    await work();
  } catch (error) {
    return error;
  }
  throw new Error("nothing was refused");
}

type Audited = { readonly takeAudits: () => readonly AuditLine[] };

/** Why an audit line says that a call was refused: its reason, and the check behind it. Several reasons share a code. */
export const refusalIn = ({ reason, check }: AuditLine): string =>
  [reason, check].filter((word) => word !== undefined).join(" ");

/**
 * How a call ends: `issued`, or the code that its caller gets, and why by the audit line. A call that ends before
 * anybody is asked has a code alone.
 */
export async function endOf(
  { takeAudits }: Audited,
  call: () => Promise<Outcome>,
): Promise<string> {
  takeAudits();
  const outcome = await call();
  const reasons = takeAudits().map(refusalIn);
  return ["code" in outcome ? outcome.code : "issued", ...reasons].filter(Boolean).join(" ");
}

/**
 * {@link endOf} of a call to a program, by the audit line that its output has of the request.
 *
 * @param lines The lines of its output so far.
 */
export async function endIn(
  { lines }: { readonly lines: readonly string[] },
  call: (headers: Readonly<Record<string, string>>) => Promise<Outcome>,
): Promise<string> {
  const requestId = randomUUID();
  const outcome = await call({ "x-request-id": requestId });
  if (!("code" in outcome)) return "issued";
  const line = await eventually(() => {
    const found = lines.find((each) => each.includes(requestId) && each.includes('"outcome"'));
    if (found === undefined) throw new Error("no audit line of the request");
    return found;
  });
  return `${outcome.code} ${refusalIn(JSON.parse(line) as AuditLine)}`;
}
