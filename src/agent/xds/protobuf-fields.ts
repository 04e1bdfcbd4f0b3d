/** A field of a protobuf message. */
export interface ProtobufField {
  readonly number: number;
  /** The octets of a length-delimited field; empty for any other. */
  readonly octets: Uint8Array;
  /** Whether the message ends before the field does. */
  readonly isCutOff: boolean;
}

/** The wire types of protobuf's encoding that are in use. */
export const wireType = { varint: 0, fixed64: 1, lengthDelimited: 2, fixed32: 5 } as const;

/**
 * The fields of a message in their order. It ends where the octets end, or are no protobuf: nobody here needs
 * more than the fields before that.
 */
export function* fieldsOf(message: Uint8Array): Generator<ProtobufField> {
  for (let at = 0; at < message.length; ) {
    const tag = readVarint(message, at);
    if (!tag) return;
    const number = Math.floor(tag.value / 8);
    const value = extentOf(message, tag.value % 8, tag.end);
    if (!value) return;
    const octets = message.subarray(value.begin, value.end);
    yield { number, octets, isCutOff: value.end > message.length };
    at = value.end;
  }
}

/** The first field with this number. */
export function fieldOf(message: Uint8Array, number: number): ProtobufField | undefined {
  for (const field of fieldsOf(message)) if (field.number === number) return field;
  return undefined;
}

function extentOf(
  message: Uint8Array,
  type: number,
  at: number,
): { readonly begin: number; readonly end: number } | undefined {
  switch (type) {
    case wireType.fixed64:
      return { begin: at + 8, end: at + 8 };
    case wireType.fixed32:
      return { begin: at + 4, end: at + 4 };
    case wireType.varint: {
      const value = readVarint(message, at);
      return value && { begin: value.end, end: value.end };
    }
    case wireType.lengthDelimited: {
      const length = readVarint(message, at);
      return length && { begin: length.end, end: length.end + length.value };
    }
    default:
      return undefined;
  }
}

function readVarint(
  octets: Uint8Array,
  begin: number,
): { readonly value: number; readonly end: number } | undefined {
  let value = 0;
  for (let at = begin; at < begin + maximumVarintOctets; at++) {
    const octet = octets[at];
    if (octet === undefined) return undefined;
    value += (octet & 0x7f) * 2 ** (7 * (at - begin));
    if (octet < 0x80) return { value, end: at + 1 };
  }
  return undefined;
}

/** Ten groups of seven bits hold 64. */
export const maximumVarintOctets = 10;

const utf8 = new TextDecoder();

/** The text of a string field. */
export const textOf = (octets: Uint8Array): string => utf8.decode(octets);
