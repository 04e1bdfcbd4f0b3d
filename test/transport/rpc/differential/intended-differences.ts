import type { DifferentialCall } from "./differential-call.ts";
import type { Observation } from "./observation.ts";

/** A difference between two answers to the same call, and why it is there. */
interface IntendedDifference {
  /** Of an {@link Observation}. */
  readonly fields: readonly string[];
  readonly reason: string;
  /** The names of the calls that show it, or a rule for them. */
  readonly calls: readonly string[] | ((call: DifferentialCall, fast: Observation) => boolean);
}

const malformedMessages = [
  "a message that is junk",
  "half a message",
  "a message with an octet after it",
  "a message with a field of another type",
  "a CSR that is not UTF-8",
];

const severalFaults = [
  "two messages, the first malformed",
  "two messages, the second malformed",
  "a compressed frame and an octet",
];

/** Those of every protocol. */
const sharedDifferences: readonly IntendedDifference[] = [
  {
    fields: ["message"],
    reason:
      "The words of a parser may quote the message; the fast path has one sentence for all of them.",
    calls: malformedMessages,
  },
  {
    fields: ["message"],
    reason: "The fast path words a fault of framing itself. Clients act on the code.",
    calls: [
      ...["no frame", "half a frame's head", "half a frame", "half a compressed frame"],
      ...["two messages", "two messages, the second empty"],
      ...["an octet after the message", "half a frame after the message"],
      ...["a frame too long after the message", "a frame that announces too much"],
      ...["a frame that announces all that a head can"],
      ...["a frame that announces an octet too many"],
      ...["a frame that announces the limit and is shorter"],
      ...["a compressed frame without an encoding", "a compressed empty frame"],
      ...["a compressed frame that announces too much", "a reserved flag in half a head"],
    ],
  },
  {
    fields: ["trailer grpc-status", "message", "audit"],
    reason:
      "Of several faults the fast path finds that of the framing first, for it looks at the whole body " +
      "before it parses a message. Connect takes one frame after the other.",
    calls: severalFaults,
  },
  {
    fields: ["status", "header content-type", "body", "message", "audit"],
    reason:
      "HTTP holds a body to its Content-Length before the RPC layer sees it (RFC 9112 §6.3, RFC 9113 " +
      "§8.1.1). The fast path relies on that, Connect counts again.",
    calls: [
      "a content length that the body falls short of",
      "a content length that the body exceeds",
      "a content length beyond the limit",
    ],
  },
  {
    fields: ["trailer grpc-status-details-bin"],
    reason: "No error of the service has details.",
    calls: ({ name, protocol }) => protocol === "gRPC" && name === "an error with details",
  },
  {
    fields: ["header x-retry"],
    reason: "No error of the service has metadata but a wait.",
    calls: ({ name, protocol }) => protocol === "Connect" && name === "an error with metadata",
  },
  {
    fields: ["trailer x-retry"],
    reason: "No error of the service has metadata but a wait.",
    calls: ({ name, protocol }) => protocol === "gRPC" && name === "an error with metadata",
  },
];

/** The differences between the fast path and Connect. There must be no other. */
export const intendedDifferences: readonly IntendedDifference[] = [
  {
    fields: ["header content-type"],
    reason:
      "The fast path answers a caller in its own spelling of the type, Connect with +proto always. " +
      "gRPC over HTTP/2 (Responses) allows both.",
    calls: ({ protocol, isFast, contentType }) =>
      isFast !== false && protocol === "gRPC" && contentType !== "application/grpc+proto",
  },
  {
    fields: ["trailer grpc-message"],
    reason:
      "The fast path encodes what is not printable ASCII, and the percent sign, as gRPC over HTTP/2 " +
      "(Responses) asks for; Connect encodes spaces and punctuation as well. Both decode to one message.",
    calls: ({ protocol, isFast }, { message, "trailer grpc-message": sent }) =>
      isFast !== false && protocol === "gRPC" && encodeURIComponent(message ?? "") !== (sent ?? ""),
  },
  ...sharedDifferences,
];

/** The differences between the fast path and Connect over gRPC-Web. */
export const intendedFastWeb: readonly IntendedDifference[] = [
  ...sharedDifferences.map((difference) => ({
    ...difference,
    // Connect encodes a message as the fast path does, so two encodings differ where two messages do.
    fields: difference.fields.flatMap((field) =>
      field === "message" ? [field, "trailer grpc-message"] : [field],
    ),
  })),
  {
    fields: ["message", "trailer grpc-message"],
    reason: "The fast path words a fault of framing itself. Clients act on the code.",
    calls: ["a frame of trailers", "compressed trailers after the message"],
  },
];

/** The fields in which a call may, and must, show differences. */
export function intendedFields(
  differences: readonly IntendedDifference[],
  call: DifferentialCall,
  observation: Observation,
): string[] {
  const shown = differences.filter(({ calls }) =>
    typeof calls === "function" ? calls(call, observation) : calls.includes(call.name),
  );
  return [...new Set(shown.flatMap(({ fields }) => fields))].toSorted();
}
