import { join } from "node:path";
import { freePorts } from "../../testkit/network/free-ports.ts";
import { startChild } from "../../testkit/programs/child-process.ts";

/**
 * A server of go-control-plane in the place of istiod, which gives every proxy one listener.
 *
 * @param listener Where Envoy is to listen.
 */
export async function startControlPlane(program: string, folder: string, listener: string) {
  const [port = 0] = await freePorts(1);
  const rootFile = join(folder, "plane-root.pem");
  const values = ["-listen", `127.0.0.1:${port}`, "-root-file", rootFile, "-listener", listener];
  const child = startChild(program, values, { logFile: join(folder, "plane.log") });
  await new Promise<void>((resolve, reject) => {
    child.onLine((line) => line === "listening" && resolve());
    child.ended.then(({ stderr }) => reject(new Error(stderr)), reject);
  });
  return { port, rootFile, end: () => child.end() };
}
