import type { Registry } from "prom-client";
import type { EventLog } from "../../ca/issuance/audit-event.ts";
import { createProbedApp, type Readiness } from "../../transport/http/probed-app.ts";
import type { ListenAddress } from "./listen-address.ts";
import { type Listener, listenInPlaintext } from "./listener.ts";
import { createMonitoringRoutes } from "./routes.ts";

/** The part of a program's work that orchestrators and scrapers see. */
export interface Monitored {
  readonly readiness: () => Readiness;
  readonly registry: Registry;
  readonly listen: ListenAddress;
  readonly log: EventLog;
}

/**
 * Opens the only port of a program that works by itself and takes no calls. Closing the port ends the work
 * first, so that its probes answer for as long as it runs.
 *
 * @param started The work. It stays the caller's to end if the port does not open.
 */
export async function monitorWork(
  started: AsyncDisposableStack,
  { readiness, registry, listen, log }: Monitored,
): Promise<Listener> {
  const app = createProbedApp(readiness);
  const routes = { rpcs: new Map(), fetch: async (request: Request) => app.fetch(request), log };
  const monitoring = await listenInPlaintext(
    createMonitoringRoutes(routes, () => registry.metrics()),
    listen,
  );
  const work = started.move();
  return {
    address: monitoring.address,
    close: async (graceMilliseconds) => {
      await using rest = new AsyncDisposableStack();
      rest.defer(() => monitoring.close(graceMilliseconds));
      await work.disposeAsync();
    },
  };
}
