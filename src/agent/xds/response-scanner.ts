import type { DiscoveryProtocol } from "./discovery-protocol.ts";
import { frameHeadOctets, frameLength } from "./grpc-status.ts";
import { ResponsePeek } from "./response-peek.ts";

/** A response that has gone by. */
export interface SeenResponse {
  readonly typeUrl: string;
  readonly octets: number;
  /** Whether Envoy got it. */
  readonly isForwarded: boolean;
}

/** Octets that are kept back until the type of their response is known. */
const longestUndecided = 64 * 1024;

const forwardedTypes = /^type\.googleapis\.com\/(?:envoy\.|istio\.workload\.Workload$)/;

/**
 * Passes responses on, octet for octet and as they come, and reads their types. It keeps back a response
 * of a type that is not for Envoy.
 */
export class ResponseScanner {
  readonly #protocol: DiscoveryProtocol;
  readonly #seen: (response: SeenResponse) => void;
  #peek: ResponsePeek;
  readonly #head = Buffer.alloc(frameHeadOctets);
  #headLength = 0;
  #length = 0;
  #remaining = 0;
  #verdict: "forward" | "drop" | "undecided" = "undecided";
  #undecided: Buffer[] = [];
  #undecidedLength = 0;

  constructor(protocol: DiscoveryProtocol, seen: (response: SeenResponse) => void) {
    this.#protocol = protocol;
    this.#peek = new ResponsePeek(protocol);
    this.#seen = seen;
  }

  /** @returns The octets that Envoy gets now. @throws FrameError */
  take(chunk: Buffer): readonly Buffer[] {
    const out: Buffer[] = [];
    for (let at = 0; at < chunk.length; ) {
      const isHead = this.#headLength < frameHeadOctets;
      const wanted = isHead ? frameHeadOctets - this.#headLength : this.#remaining;
      const part = chunk.subarray(at, at + wanted);
      at += part.length;
      if (isHead) this.#takeHead(part);
      else this.#takeMessage(part);
      this.#pass(part, out);
      if (this.#headLength === frameHeadOctets && this.#remaining === 0) this.#endFrame(out);
    }
    return out;
  }

  #takeHead(part: Buffer): void {
    this.#head.set(part, this.#headLength);
    this.#headLength += part.length;
    if (this.#headLength < frameHeadOctets) return;
    this.#length = frameLength(this.#head);
    this.#remaining = this.#length;
  }

  #takeMessage(part: Buffer): void {
    this.#remaining -= part.length;
    this.#peek.take(part);
    if (this.#verdict === "undecided") this.#decide();
  }

  #decide(): void {
    const { typeUrl, resourceType } = this.#peek;
    if (forwardedTypes.test(typeUrl ?? resourceType ?? "")) this.#verdict = "forward";
    else if (typeUrl !== undefined) this.#verdict = "drop";
    else if (this.#undecidedLength > longestUndecided) {
      this.#verdict = resourceType ? "drop" : "forward";
    }
  }

  #pass(part: Buffer, out: Buffer[]): void {
    if (this.#verdict === "undecided") {
      this.#undecided.push(part);
      this.#undecidedLength += part.length;
      return;
    }
    if (this.#verdict === "forward") out.push(...this.#undecided, part);
    this.#undecided = [];
    this.#undecidedLength = 0;
  }

  #endFrame(out: Buffer[]): void {
    if (this.#verdict === "undecided") {
      this.#verdict = "drop";
      this.#pass(Buffer.alloc(0), out);
    }
    const { typeUrl, resourceType } = this.#peek;
    this.#seen({
      typeUrl: typeUrl ?? resourceType ?? "",
      octets: this.#length,
      isForwarded: this.#verdict === "forward",
    });
    this.#peek = new ResponsePeek(this.#protocol);
    this.#headLength = 0;
    this.#verdict = "undecided";
  }
}
