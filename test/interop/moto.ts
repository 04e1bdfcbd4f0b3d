import { join } from "node:path";
import { freePorts } from "../testkit/network/free-ports.ts";
import { startChild } from "../testkit/programs/child-process.ts";
import { until } from "../testkit/time/until.ts";

/** moto, which stands for AWS, and where it answers. @param python One that has `moto[server]`. */
export async function startMoto(
  python: string,
  folder: string,
): Promise<{ readonly origin: string; readonly end: () => Promise<number> }> {
  const [port = 0] = await freePorts(1);
  const values = ["-m", "moto.server", "-H", "127.0.0.1", "-p", `${port}`];
  const child = startChild(python, values, { logFile: join(folder, "moto.log") });
  const origin = `http://127.0.0.1:${port}`;
  await until("moto answers", () =>
    fetch(`${origin}/moto-api/`).then(
      ({ ok }) => ok,
      () => false,
    ),
  );
  return { origin, end: () => child.end() };
}
