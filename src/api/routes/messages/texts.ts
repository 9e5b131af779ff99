// Renders the texts of a message from a template and its variables.
import type { Channel } from '#core/addresses.ts'
import { AppError } from '#core/errors.ts'
import { renderTemplate, type TemplateVariables } from '#domain/templates/render.ts'
import type { RenderedTemplate } from '#domain/templates/template.ts'
import type { Requester } from './requester.ts'

/** `template`: the name or id of the template. */
export type TemplateRequest = {
  channel: Channel
  template: string
  variables: TemplateVariables
}

/** Renders the texts of a template. Throws `template_not_found` and `template_invalid`. */
export async function renderTemplateTexts(
  { withTemplate }: Requester,
  { channel, template: name_or_id, variables }: TemplateRequest,
): Promise<RenderedTemplate> {
  return await withTemplate(name_or_id, async (template, signal) => {
    if (template === undefined) throw new AppError('template_not_found', { param: 'template' })
    if (template.channel !== channel)
      throw new AppError('template_invalid', {
        param: 'template',
        message: `The template is for ${template.channel === 'sms' ? 'SMS' : 'email'}.`,
        context: { line: null, variable: null },
      })
    return await renderTemplate(template, variables, signal)
  })
}
