import { BinaryReader, BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import { type Http2Call, nativeCall } from "../node/http2-load.ts";

/** The calls of SPIRE's server API that an agent makes, each field by its number in spire-api-sdk 1.13. */

/** Attests a new agent by a join token. */
export function attestAgent(joinToken: string, csr: Uint8Array): Http2Call {
  const writer = new BinaryWriter();
  // AttestAgentRequest.params
  writer.tag(1, WireType.LengthDelimited).fork();
  writer.tag(1, WireType.LengthDelimited).fork();
  writer.tag(1, WireType.LengthDelimited).string("join_token");
  writer.tag(2, WireType.LengthDelimited).bytes(Buffer.from(joinToken)).join();
  writer.tag(2, WireType.LengthDelimited).fork();
  writer.tag(1, WireType.LengthDelimited).bytes(csr).join().join();
  return nativeCall("/spire.api.server.agent.v1.Agent/AttestAgent", writer.finish());
}

/** The agent's chain, DER, leaf first. */
export function chainOfAgent(answer: Buffer): readonly Uint8Array[] {
  const [result] = fieldsOf(messageOf(answer), 1);
  return chainOf(result, 1);
}

/** Renews the X509-SVIDs of so many workloads, here all of one entry. */
export function batchNewX509Svid(entryId: string, csr: Uint8Array, times: number): Http2Call {
  const writer = new BinaryWriter();
  for (let i = 0; i < times; i++) {
    writer.tag(1, WireType.LengthDelimited).fork();
    writer.tag(1, WireType.LengthDelimited).string(entryId);
    writer.tag(2, WireType.LengthDelimited).bytes(csr).join();
  }
  return nativeCall("/spire.api.server.svid.v1.SVID/BatchNewX509SVID", writer.finish());
}

/** The number of X509-SVIDs in an answer to `batchNewX509Svid`. A refused one has a status, and no chain. */
export function countX509Svids(answer: Buffer): number {
  return fieldsOf(messageOf(answer), 1).filter((result) => chainOf(result, 2).length > 0).length;
}

/** @param svidField The number of the field of a result that holds its X509-SVID. */
function chainOf(result: Uint8Array | undefined, svidField: number): readonly Uint8Array[] {
  const [svid] = result ? fieldsOf(result, svidField) : [];
  return svid ? fieldsOf(svid, 1) : [];
}

/** The message of one gRPC frame. */
const messageOf = (frame: Buffer): Uint8Array => frame.subarray(5);

function fieldsOf(message: Uint8Array, number: number): readonly Uint8Array[] {
  const reader = new BinaryReader(message);
  const found: Uint8Array[] = [];
  while (reader.pos < reader.len) {
    const [field, wireType] = reader.tag();
    if (field === number && wireType === WireType.LengthDelimited) found.push(reader.bytes());
    else reader.skip(wireType, field);
  }
  return found;
}
