import { createReadStream } from "node:fs";
import { createInterface } from "node:readline";
import * as z from "zod/mini";
import { circumstances } from "../../../ca/policy/rule.ts";
import { OperatorError } from "../../../foundation/errors.ts";
import type { PastRequest } from "../log/logged-requests.ts";

/** A call that a rule refused: no log has it. */
const refusal = z.object({
  reason: z.enum(["policy-denied", "audience-denied"]),
  time: z.iso.datetime({ offset: true }),
  detail: z.string(),
  asked: circumstances,
});

/** The refusals by rules among the lines of an audit trail, whose other lines are skipped. */
export async function refusalsIn(file: string, since: string): Promise<readonly PastRequest[]> {
  const found: PastRequest[] = [];
  let number = 0;
  try {
    for await (const line of createInterface({ input: createReadStream(file) })) {
      number++;
      const parsed = line.includes('-denied"') ? refusal.safeParse(jsonOf(line)) : undefined;
      if (!parsed?.success || new Date(parsed.data.time) < new Date(since)) continue;
      const { asked, detail } = parsed.data;
      const made = { denied: detail, lifeSeconds: undefined, signer: asked.signer };
      found.push({ circumstances: asked, made, count: 1, place: `line ${number}` });
    }
  } catch (error) {
    throw new OperatorError(`${file} cannot be read`, { cause: error });
  }
  return found;
}

function jsonOf(line: string): unknown {
  try {
    // journald and kubectl put words before a line.
    return JSON.parse(line.slice(line.indexOf("{")));
  } catch {
    return undefined;
  }
}
