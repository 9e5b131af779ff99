// Routes of templates.
import type { RouteApp, RouteContext } from '../context.ts'
import { createTemplateRoute } from './templates/create.ts'
import { deleteTemplateRoute } from './templates/delete.ts'
import { previewTemplateRoute } from './templates/preview.ts'
import { readTemplateRoutes } from './templates/read.ts'
import { updateTemplateRoute } from './templates/update.ts'

export function templateRoutes(app: RouteApp, context: RouteContext): void {
  createTemplateRoute(app, context)
  readTemplateRoutes(app, context)
  updateTemplateRoute(app, context)
  deleteTemplateRoute(app, context)
  previewTemplateRoute(app, context)
}
