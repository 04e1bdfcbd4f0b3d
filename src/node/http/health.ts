import { Code, ConnectError, type ConnectRouter } from "@connectrpc/connect";
import { pause } from "../../foundation/work/pause.ts";
import {
  Health,
  HealthCheckResponse_ServingStatus as Status,
} from "../../gen/grpc/health/v1/health_pb.ts";

/** The time between two reads of the state for a watcher. */
const watchMilliseconds = 1000;

/** Each watcher holds a stream for as long as it likes. */
const maximumWatchers = 32;

/**
 * gRPC's health checking protocol, for Kubernetes' probes and for load balancers.
 *
 * @param services Full names of the services that share one state; the server as a whole is "".
 */
export function addHealth(
  router: ConnectRouter,
  services: readonly string[],
  isServing: () => Promise<boolean>,
): void {
  const isKnown = (name: string): boolean => name === "" || services.includes(name);
  const statusNow = async (): Promise<Status> =>
    (await isServing()) ? Status.SERVING : Status.NOT_SERVING;
  let watchers = 0;

  async function* statuses(
    service: string,
    signal: AbortSignal,
  ): AsyncGenerator<{ status: Status }> {
    let sent: Status | undefined;
    while (!signal.aborted) {
      const status = isKnown(service) ? await statusNow() : Status.SERVICE_UNKNOWN;
      if (status !== sent) yield { status };
      sent = status;
      await pause(watchMilliseconds, signal);
    }
  }

  router.service(Health, {
    check: async ({ service }) => {
      if (!isKnown(service)) throw new ConnectError("no such service", Code.NotFound);
      return { status: await statusNow() };
    },
    async *watch({ service }, { signal }) {
      if (watchers >= maximumWatchers) {
        throw new ConnectError("too many watch already", Code.ResourceExhausted);
      }
      watchers++;
      try {
        yield* statuses(service, signal);
      } finally {
        watchers--;
      }
    },
  });
}
