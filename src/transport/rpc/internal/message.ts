import {
  type DescField,
  type DescMessage,
  fromBinary,
  type MessageShape,
} from "@bufbuild/protobuf";
import { BinaryReader, WireType } from "@bufbuild/protobuf/wire";
import { Code, ConnectError } from "@connectrpc/connect";
import { JsonBounds, JsonTooLarge } from "../../../foundation/json.ts";
import { RequestBody } from "../request-body.ts";

/** The most values of JSON, or fields of protobuf. A signer's request for 32 DNS names has 120. */
const maximumValues = 256;

const jsonBounds: JsonBounds = { octets: RequestBody.maximumOctets, values: maximumValues };

/**
 * Parses the message of a call.
 *
 * @throws ConnectError Internal for malformed bytes, as Connect's parser does, and what {@link requireFewValues} throws.
 */
export function parseMessage<Schema extends DescMessage>(
  schema: Schema,
  message: Uint8Array,
): MessageShape<Schema> {
  requireFewValues(schema, message, false);
  try {
    return fromBinary(schema, message, { readUnknownFields: false });
  } catch (error) {
    // The parser's own words may quote the message.
    const text = "the message does not parse";
    throw new ConnectError(text, Code.Internal, undefined, undefined, error);
  }
}

/**
 * Refuses a message that would take far more memory than its octets: 63 KB of empty lists take five mebibytes. It
 * leaves a malformed message to its parser.
 *
 * @throws ConnectError InvalidArgument.
 */
export function requireFewValues(schema: DescMessage, message: Uint8Array, isJson: boolean): void {
  try {
    if (isJson) JsonBounds.require(message, jsonBounds);
    else countFields(schema, new BinaryReader(message), message.length, 0);
  } catch (error) {
    if (!(error instanceof JsonTooLarge || error instanceof TooManyFields)) return;
    throw new ConnectError("the message has too many values", Code.InvalidArgument);
  }
}

class TooManyFields extends Error {}

/** Counts the fields up to the end. @returns Their number, plus `before`. */
function countFields(
  parent: DescMessage | DescField,
  reader: BinaryReader,
  end: number,
  before: number,
): number {
  let count = before;
  while (reader.pos < end) {
    if (++count > maximumValues) throw new TooManyFields();
    const [number, wireType] = reader.tag();
    const child = wireType === WireType.LengthDelimited ? childOf(parent, number) : undefined;
    if (child) count = countFields(child, reader, reader.uint32() + reader.pos, count);
    else reader.skip(wireType, number);
  }
  return count;
}

/**
 * The message or map entry that field `number` of `parent` holds, for counting its own fields; `undefined` for a scalar
 * or an unknown field.
 */
function childOf(
  parent: DescMessage | DescField,
  number: number,
): DescMessage | DescField | undefined {
  if (parent.kind === "field") return number === 2 ? parent.message : undefined;
  const field = parent.fields.find((each) => each.number === number);
  return field?.fieldKind === "map" ? field : field?.message;
}
