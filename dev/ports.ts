import { once } from "node:events";
import { createServer } from "node:net";
import { OperatorError } from "../src/foundation/errors.ts";

/** @throws OperatorError that names every port of `uses` that cannot be listened on. */
export async function requireFreePorts(uses: Readonly<Record<number, string>>): Promise<void> {
  const faults = await Promise.all(
    Object.entries(uses).map(async ([port, use]) => {
      const fault = await listenFault(Number(port));
      return fault && `Port ${port} on 127.0.0.1 ${fault}, and ${use} needs it.`;
    }),
  );
  const lines = faults.filter((line) => line !== undefined);
  if (lines.length === 0) return;
  const ports = Object.keys(uses).join(" -i :");
  throw new OperatorError(
    `${lines.join("\n")}\nIf an earlier npm start still runs, end it with Ctrl-C. ` +
      `Otherwise this command shows the process that listens:\n\n  lsof -nP -i :${ports}`,
  );
}

async function listenFault(port: number): Promise<string | undefined> {
  const server = createServer();
  try {
    server.listen(port, "127.0.0.1");
    await once(server, "listening");
    return undefined;
  } catch (error) {
    const code = error instanceof Error && "code" in error ? error.code : error;
    return code === "EADDRINUSE" ? "is taken" : `cannot be used (${code})`;
  } finally {
    server.close();
  }
}
