// A passkey in software (WebAuthn Level 3): a P-256 key that signs challenges, without attestation.
import { createHash, generateKeyPairSync, randomBytes, sign } from 'node:crypto'

/** A credential of `navigator.credentials` as JSON. */
type Credential = {
  id: string
  rawId: string
  type: string
  response: object
  clientExtensionResults: object
}

/** `asks`: the passkey asks for a PIN or a fingerprint, and reports the user as verified. */
export function createPasskey(origin: string, { asks = true } = {}) {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const id = randomBytes(16)
  let counter = 0

  function authenticatorData(rp_id: string, attested = Buffer.alloc(0)): Buffer {
    counter += 1
    // User present, user verified, attested data.
    const flags = 1 | (asks ? 4 : 0) | (attested.length > 0 ? 64 : 0)
    const head = Buffer.alloc(5)
    head.writeUInt8(flags)
    head.writeUInt32BE(counter, 1)
    return Buffer.concat([createHash('sha256').update(rp_id).digest(), head, attested])
  }
  function clientData(type: string, challenge: string): Buffer {
    return Buffer.from(JSON.stringify({ type, challenge, origin, crossOrigin: false }))
  }
  function credential(response: Record<string, Buffer>): Credential {
    const encoded = Object.entries(response).map(([name, value]) => [name, value.toString('base64url')])
    const name = id.toString('base64url')
    return {
      id: name,
      rawId: name,
      type: 'public-key',
      response: Object.fromEntries(encoded),
      clientExtensionResults: {},
    }
  }

  return {
    /** The response to `generate-register-options`. */
    register({ challenge, rp }: { challenge: string; rp: { id: string } }): Credential {
      const { x, y } = publicKey.export({ format: 'jwk' })
      // CBOR, encoded by hand: { 1: 2, 3: -7, -1: 1, -2: x, -3: y }.
      const key = Buffer.concat([
        Buffer.from('a5010203262001215820', 'hex'),
        Buffer.from(x!, 'base64url'),
        Buffer.from('225820', 'hex'),
        Buffer.from(y!, 'base64url'),
      ])
      const attested = Buffer.concat([Buffer.alloc(16), Buffer.from([0, id.length]), id, key])
      const data = authenticatorData(rp.id, attested)
      // { fmt: "none", attStmt: {}, authData: data }.
      const attestationObject = Buffer.concat([
        Buffer.from([0xa3, 0x63]),
        Buffer.from('fmt'),
        Buffer.from([0x64]),
        Buffer.from('none'),
        Buffer.from([0x67]),
        Buffer.from('attStmt'),
        Buffer.from([0xa0, 0x68]),
        Buffer.from('authData'),
        Buffer.from([0x58, data.length]),
        data,
      ])
      return credential({ clientDataJSON: clientData('webauthn.create', challenge), attestationObject })
    },
    /** The response to `generate-authenticate-options`. */
    signIn({ challenge, rpId }: { challenge: string; rpId: string }): Credential {
      const [data, clientDataJSON] = [authenticatorData(rpId), clientData('webauthn.get', challenge)]
      const signed = Buffer.concat([data, createHash('sha256').update(clientDataJSON).digest()])
      const signature = sign('sha256', signed, privateKey)
      return credential({ clientDataJSON, authenticatorData: data, signature })
    },
  }
}
