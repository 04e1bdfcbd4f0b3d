import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Failure } from "./jobs.ts";

/** An input that a campaign found, which the tests judge again. */
interface FuzzVector {
  readonly name: string;
  /** Base64. */
  readonly input: string;
  /** The right outcome; absent where it is enough that nothing is wrong. */
  readonly outcome?: string;
}

const vectorFolder: string = join(import.meta.dirname, "../../vectors/fuzz");

/** The vectors of a target. */
export async function readKept(target: string): Promise<FuzzVector[]> {
  try {
    return JSON.parse(await readFile(fileOf(target), "utf8")) as FuzzVector[];
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return [];
    throw error;
  }
}

/** Adds failures of a target to its vectors, each input once. */
export async function keepFailures(
  target: string,
  seed: number,
  failures: readonly Failure[],
): Promise<void> {
  const kept = await readKept(target);
  const found = failures
    .filter(({ input }) => input !== "" && !kept.some((vector) => vector.input === input))
    .map(({ fault, caseNumber, input }) => ({
      name: `seed ${seed}, case ${caseNumber}: ${fault}`,
      input,
    }));
  if (found.length === 0) return;
  await mkdir(vectorFolder, { recursive: true });
  await writeFile(fileOf(target), `${JSON.stringify([...kept, ...found], undefined, 2)}\n`);
}

const fileOf = (target: string): string => join(vectorFolder, `${target}.json`);
