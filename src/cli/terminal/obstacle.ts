import { ConfigurationError } from "../../foundation/configuration-error.ts";

/** What keeps a verb from its work, in words for whoever typed it. Anything else thrown is a defect. */
export class Obstacle extends Error {
  override readonly name = "Obstacle";
}

/** A fault of the configuration, or of the machine, is one sentence; the rest is a defect. */
export async function orObstacle<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof ConfigurationError) {
      throw new Obstacle(error.faults.join("\n         "));
    }
    if (error instanceof Error && "code" in error) throw new Obstacle(error.message);
    throw error;
  }
}
