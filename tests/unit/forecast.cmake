pillion_test(forecast_test SOURCES forecast/forecast_test.cc LINK pillion_forecast)
