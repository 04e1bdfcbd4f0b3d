import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { stringify } from "smol-toml";
import { freePorts } from "../../testkit/network/free-ports.ts";
import { startRelay } from "../../testkit/network/relay.ts";
import { launchServer, type ServerProcess } from "../../testkit/programs/rampart-process.ts";
import { until } from "../../testkit/time/until.ts";
import type { SharedService } from "./shared-service.ts";

/** A process of `rampart serve` that ends and comes back at one address, with a way of its own to the store. */
export type Replica = Awaited<ReturnType<typeof createReplica>>;

/** Starts replicas with these keys, which end with the scope, and waits until they are ready. */
export async function startReplicas(
  names: readonly string[],
  folder: string,
  service: Omit<SharedService, "restart">,
  keys: object,
  cleanup: AsyncDisposableStack,
): Promise<readonly Replica[]> {
  const replicas: Replica[] = [];
  for (const name of names) replicas.push(await createReplica(name, folder, service, keys));
  for (const each of replicas) cleanup.defer(each.end);
  await Promise.all(replicas.map((each) => each.start()));
  for (const each of replicas) await until(`${each.name} is not ready`, each.isReady, 120);
  return replicas;
}

async function createReplica(
  name: string,
  folder: string,
  service: Omit<SharedService, "restart">,
  keys: object,
) {
  const link = await startRelay(service.port);
  const [port = 0, monitoringPort = 0] = await freePorts(2);
  const configurationFile = join(folder, `${name}.toml`);
  const listen = { LISTEN: `127.0.0.1:${port}`, MONITORING_LISTEN: `127.0.0.1:${monitoringPort}` };
  await writeFile(
    configurationFile,
    stringify({ ...keys, ...service.keysBehind(link.port), ...listen }),
  );
  const processes: ServerProcess[] = [];
  let running: ServerProcess | undefined;

  const monitoringUrl = (path: string): string => `http://127.0.0.1:${monitoringPort}${path}`;
  const published = async (path: string): Promise<Response | undefined> =>
    fetch(monitoringUrl(path)).catch(() => undefined);

  async function answersWell(path: string): Promise<boolean> {
    const response = await published(path);
    await response?.body?.cancel();
    return response?.status === 200;
  }

  async function ended(signal: NodeJS.Signals): Promise<number> {
    const process = running;
    running = undefined;
    return process ? process.end(signal) : -1;
  }

  return {
    name,
    port,
    configurationFile,
    link,
    start: async () => {
      running = await launchServer("serve", configurationFile, service.environment);
      processes.push(running);
    },
    /** Ends the process as a machine that fails. */
    kill: async () => void (await ended("SIGKILL")),
    /** Ends the process as Kubernetes does. @returns Its exit code. */
    drain: () => ended("SIGTERM"),
    /** Answers late while the first load of the store is under way. */
    isReady: () => answersWell("/readyz"),
    /** The published trust bundle; `undefined` while the replica publishes none. */
    bundle: async (): Promise<string | undefined> => {
      const response = await published("/bundle.pem");
      const text = (await response?.text().catch(() => "")) ?? "";
      return response?.status === 200 && text.includes("BEGIN") ? text : undefined;
    },
    monitoringUrl,
    lines: () => processes.flatMap(({ lines }) => lines),
    end: async () => {
      await ended("SIGKILL");
      link.close();
    },
  };
}
