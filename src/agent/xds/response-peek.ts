import { type DiscoveryProtocol, responseFields } from "./discovery-protocol.ts";
import { maximumVarintOctets, textOf, wireType } from "./protobuf-fields.ts";

/** A resource's version comes before its type, and is shorter than this. */
const longestCollection = 1024;

/**
 * Reads the type of a response while the response streams by. The type follows the resources, which may be
 * tens of MiB, so the type of the first resource counts until then.
 */
export class ResponsePeek {
  readonly #protocol: DiscoveryProtocol;
  /** The type of the first resource. */
  resourceType: string | undefined;
  /** The type of the response. */
  typeUrl: string | undefined;
  #isProtobuf = true;
  #expected: "tag" | "value" | "length" = "tag";
  #varint = 0;
  #varintOctets = 0;
  #field = 0;
  /** Octets of the field that are still to come. */
  #remaining = 0;
  #collected: Uint8Array[] | undefined;
  #collectedLength = 0;

  constructor(protocol: DiscoveryProtocol) {
    this.#protocol = protocol;
  }

  /** Takes the next octets. What is no protobuf is not read any further. */
  take(octets: Uint8Array): void {
    for (let at = 0; at < octets.length && this.#isProtobuf; ) {
      if (this.#remaining > 0) at += this.#skip(octets, at);
      else this.#takeVarintOctet(octets[at++] ?? 0);
    }
  }

  #skip(octets: Uint8Array, at: number): number {
    const length = Math.min(this.#remaining, octets.length - at);
    this.#collect(octets.subarray(at, at + length));
    this.#remaining -= length;
    if (this.#remaining === 0) this.#endCollection();
    return length;
  }

  #takeVarintOctet(octet: number): void {
    this.#varint += (octet & 0x7f) * 2 ** (7 * this.#varintOctets++);
    if (octet < 0x80) {
      const value = this.#varint;
      this.#varint = 0;
      this.#varintOctets = 0;
      this.#takeVarint(value);
    } else if (this.#varintOctets === maximumVarintOctets) this.#isProtobuf = false;
  }

  #takeVarint(value: number): void {
    const expected = this.#expected;
    this.#expected = "tag";
    if (expected === "tag") this.#beginField(value);
    if (expected === "length") this.#beginValue(value);
  }

  #beginField(tag: number): void {
    this.#field = Math.floor(tag / 8);
    const type = tag % 8;
    if (type === wireType.varint) this.#expected = "value";
    else if (type === wireType.lengthDelimited) this.#expected = "length";
    else if (type === wireType.fixed64) this.#remaining = 8;
    else if (type === wireType.fixed32) this.#remaining = 4;
    else this.#isProtobuf = false;
  }

  #beginValue(length: number): void {
    this.#remaining = length;
    const { typeUrl, resources } = responseFields;
    const isResource = this.#field === resources && this.resourceType === undefined;
    if (this.#field !== typeUrl && !isResource) return;
    this.#collected = [];
    this.#collectedLength = 0;
    if (length === 0) this.#endCollection();
  }

  #collect(octets: Uint8Array): void {
    if (!this.#collected) return;
    const rest = octets.subarray(0, longestCollection - this.#collectedLength);
    this.#collected.push(rest);
    this.#collectedLength += rest.length;
    if (this.#collectedLength === longestCollection) this.#endCollection();
  }

  #endCollection(): void {
    if (!this.#collected) return;
    const collected = Buffer.concat(this.#collected);
    this.#collected = undefined;
    if (this.#field === responseFields.typeUrl) this.typeUrl = textOf(collected);
    else this.resourceType = this.#protocol.resourceType(collected) ?? "";
  }
}
