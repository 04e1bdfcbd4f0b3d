import { join } from "node:path";
import { freePorts } from "../testkit/network/free-ports.ts";
import { startChild } from "../testkit/programs/child-process.ts";
import { until } from "../testkit/time/until.ts";

/**
 * moto, which stands for AWS, and where it answers.
 *
 * @param python One that has `moto[server]`.
 * @param program A script that starts it, with more than it has.
 */
export async function startMoto(
  python: string,
  folder: string,
  program?: string,
): Promise<{ readonly origin: string; readonly end: () => Promise<number> }> {
  const [port = 0] = await freePorts(1);
  const start = program === undefined ? ["-m", "moto.server"] : [program];
  const values = [...start, "-H", "127.0.0.1", "-p", `${port}`];
  const child = startChild(python, values, { logFile: join(folder, "moto.log") });
  // By this name moto finds a bucket in the path of a URL.
  const origin = `http://localhost:${port}`;
  await until("moto answers", () =>
    fetch(`${origin}/moto-api/`).then(
      ({ ok }) => ok,
      () => false,
    ),
  );
  return { origin, end: () => child.end() };
}
