import type { Target } from "../targets/target.ts";
import { WrongAnswer } from "../targets/target.ts";

/** Far more CPU than any input of these sizes needs, so that a busy machine fails nothing. */
const maximumMilliseconds = 1000;

/** How a case ended. */
type Judgement =
  | { readonly outcome: string }
  | {
      /** The fault, without figures of the single case, so that cases with the same fault are alike. */
      readonly fault: string;
      readonly error: unknown;
    };

/** The CPU that this thread has used, in milliseconds. */
function threadMilliseconds(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}

/**
 * Judges one input, within a bound on CPU. It never rejects.
 *
 * @param used The CPU that was used so far, in milliseconds.
 */
export async function judged(
  target: Target,
  input: Buffer<ArrayBuffer>,
  used: () => number = threadMilliseconds,
): Promise<Judgement> {
  try {
    return { outcome: await judgedInTime(target, input, used) };
  } catch (error) {
    return { fault: faultOf(error), error };
  }
}

async function judgedInTime(
  target: Target,
  input: Buffer<ArrayBuffer>,
  used: () => number,
): Promise<string> {
  // The first time may pay for code that compiles, or for garbage of earlier cases.
  for (let attempt = 1; ; attempt++) {
    const before = used();
    const outcome = await target.judge(input);
    if (used() - before < maximumMilliseconds) return outcome;
    if (attempt === 3) throw new WrongAnswer(`takes more than ${maximumMilliseconds} ms of CPU`);
  }
}

function faultOf(error: unknown): string {
  const text = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
  return text.replace(/\d+/g, "N").slice(0, 200);
}
