import { Code, ConnectError, createConnectRouter } from "@connectrpc/connect";
import type { UniversalHandler } from "@connectrpc/connect/protocol";
import { StatusService } from "../gen/rampart/status/v1/status_pb.ts";
import type { Status } from "../status/status.ts";

/** The parts that answer an operator's calls. */
export interface StatusServiceParts {
  readonly status: Status;
  readonly clock: () => Date;
  /** Runs before a byte of a message is read. @throws ConnectError */
  readonly admit: (headers: Headers) => Promise<void>;
  /** Whether the platform has trailers, which native gRPC needs. */
  readonly hasTrailers: boolean;
}

/** A query has at most 256 characters. */
const maximumRequestOctets = 4096;
const maximumAnswerOctets = 4 * 1024 * 1024;

/** `rampart.status.v1.StatusService` over every protocol of the platform. */
export function createStatusHandlers({
  status,
  clock,
  admit,
  hasTrailers,
}: StatusServiceParts): readonly UniversalHandler[] {
  const router = createConnectRouter({
    grpc: hasTrailers,
    readMaxBytes: maximumRequestOctets,
    writeMaxBytes: maximumAnswerOctets,
    requestGate: ({ requestHeader }) => admit(requestHeader),
  });
  router.service(StatusService, {
    getStatus: async (_request, { responseHeader }) => {
      responseHeader.set("cache-control", "no-store");
      return status.at(clock());
    },
    searchLog: async ({ query, limit }, { responseHeader }) => {
      responseHeader.set("cache-control", "no-store");
      if (status.searchLog) return status.searchLog(query, limit);
      throw new ConnectError("no entry of a log may be read here", Code.FailedPrecondition);
    },
  });
  return router.handlers;
}
