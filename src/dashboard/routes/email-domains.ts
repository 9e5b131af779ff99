// Settings, Email: the sender domains that a tenant's email may use. Only operators change them.
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import { z } from 'zod'
import { asciiDomain } from '#core/addresses.ts'
import { AppError } from '#core/errors.ts'
import { isMailDomain } from '#core/mail-address.ts'
import { changeEmailDomains, findEmailDomains, MAX_EMAIL_DOMAINS } from '#domain/tenants.ts'
import { actorOf, requireOperator, requireTenant, type DashboardContext } from '../context.ts'
import { AUDIT_HEADER } from '../on-record.ts'

/** `domains` null: the tenant uses `of_installation`. An empty `of_installation` allows any domain. */
const domainsSchema = z.object({
  domains: z.array(z.string()).nullable(),
  of_installation: z.array(z.string()),
})
const body = z.strictObject({
  domain: z
    .string()
    .trim()
    .refine(isMailDomain, { error: 'must be a domain such as shop.example' })
    .transform(asciiDomain),
})

export function emailDomainRoutes(root: FastifyInstance, { sql, config }: DashboardContext): void {
  const app = root.withTypeProvider<ZodTypeProvider>()

  /**
   * Replaces the domains of the tenant with the result of `update`, and records the change. If `update` returns null,
   * the domains of the installation apply.
   */
  async function change(
    request: FastifyRequest,
    reply: FastifyReply,
    update: (domains: string[]) => string[] | null,
  ): Promise<FastifyReply> {
    requireOperator(request)
    const { id } = requireTenant(request).tenant
    const entry = await changeEmailDomains(sql, id, (domains) => update(domains ?? []), actorOf(request, id))
    return await reply.code(204).header(AUDIT_HEADER, entry).send()
  }

  app.get(
    '/api/email-domains',
    { schema: { response: { 200: domainsSchema } }, config: { audit_action: 'readEmailDomains' } },
    async (request) => ({
      domains: await findEmailDomains(request.sql, requireTenant(request).tenant.id),
      of_installation: config.EMAIL_FROM_DOMAINS,
    }),
  )

  app.post('/api/email-domains', { schema: { body } }, async (request, reply) => {
    const { domain } = request.body
    return await change(request, reply, (domains) => {
      if (domains.includes(domain)) throw conflict(`${domain} is on the list already.`)
      if (domains.length >= MAX_EMAIL_DOMAINS)
        throw conflict(`This tenant has ${MAX_EMAIL_DOMAINS} domains: remove one before you add another.`)
      return [...domains, domain]
    })
  })

  app.post('/api/email-domains/remove', { schema: { body } }, async (request, reply) => {
    const { domain } = request.body
    return await change(request, reply, (domains) => {
      if (!domains.includes(domain)) throw conflict(`${domain} is not on the list.`)
      return domains.filter((each) => each !== domain)
    })
  })

  app.post('/api/email-domains/default', async (request, reply) => await change(request, reply, () => null))
}

function conflict(message: string): AppError {
  return new AppError('conflict', { message })
}
