import { Code, ConnectError, type ConnectRouter } from "@connectrpc/connect";
import { pause } from "../../foundation/pause.ts";
import {
  Health,
  HealthCheckResponse_ServingStatus as Status,
} from "../../gen/grpc/health/v1/health_pb.ts";

/** How often a watcher's state is looked at. */
const watchMilliseconds = 1000;

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
  router.service(Health, {
    check: async ({ service }) => {
      if (!isKnown(service)) throw new ConnectError("no such service", Code.NotFound);
      return { status: await statusNow() };
    },
    async *watch({ service }, { signal }) {
      let told: Status | undefined;
      while (!signal.aborted) {
        const status = isKnown(service) ? await statusNow() : Status.SERVICE_UNKNOWN;
        if (status !== told) yield { status };
        told = status;
        await pause(watchMilliseconds, signal);
      }
    },
  });
}
